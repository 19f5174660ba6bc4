//! `kube-gc demo` itself: the scenarios as text and as JSON, a load, and kubectl afterwards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube_gc_testkit::collector::get;
use kube_gc_testkit::controller_manager::binaries;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// The scenarios take a second without pauses, and longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-gc"));
    command.arg("demo").args(args).stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(args: &[&str]) -> Result<Output> {
    Ok(timeout(PATIENCE, demo(args).output()).await.context("it does not end")??)
}

/// What it says. It must succeed.
async fn said(args: &[&str]) -> Result<String> {
    let output = run(args).await?;
    let (stdout, errors) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() && errors.is_empty(), "{}: {errors}\n{stdout}", output.status);
    Ok(stdout)
}

/// The same with JSON output.
async fn events(args: &[&str]) -> Result<Vec<Value>> {
    let stdout = said(&[&["--once", "-o", "json"], args].concat()).await?;
    stdout.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The steps of a phase, each as "OBJECT ACTION OUTCOME", in order of name.
fn steps(phase: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut steps: Vec<String> = elements(&phase["steps"])
        .iter()
        .map(|step| format!("{} {} {}", text(&step["object"]), text(&step["action"]), text(&step["outcome"])))
        .collect();
    steps.sort();
    steps
}

/// Fails if the name of a field has an underscore.
fn names_are_camel_case(value: &Value) -> Result<()> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            ensure!(!name.contains('_'), "the field {name}");
            names_are_camel_case(value)
        }),
        Value::Array(items) => items.iter().try_for_each(names_are_camel_case),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn text_output_to_a_pipe_has_no_escape_codes() -> Result<()> {
    let directory = TempDir::new()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let stdout = said(&["--once", "--kubeconfig", kubeconfig.to_str().context("not UTF-8")?]).await?;
    ensure!(!stdout.contains('\u{1b}'), "escape codes: {stdout:?}");
    for expected in [
        "├─ ReplicaSet web-6f7d8c",
        "1/5  background",
        "$ kubectl delete deployment web -n shop --cascade=background",
        "its owner Deployment web is absent: a watch has shown its deletion",
        "2/5  foreground",
        "its owner Cart alice waits for its dependents: confirmed by the API server",
        "✓ Cart alice is being deleted and waits for the finalizer foregroundDeletion",
        "3/5  orphan",
        "✓ ReplicaSet api-7c9d5f exists and has no owner",
        "4/5  dangling",
        "GET /apis/apps/v1/namespaces/shop/deployments/winter-sale -> 404",
        "5/5  a mistake",
        "✓ there is a warning event about ConfigMap back-office/shifts",
    ] {
        ensure!(stdout.contains(expected), "does not say {expected:?}:\n{stdout}");
    }
    ensure!(
        !stdout.contains("kubectl --kubeconfig"),
        "with --once the cluster does not keep running:\n{stdout}"
    );
    ensure!(!kubeconfig.exists(), "the kubeconfig is left");
    the_page_shows("README.md", " demo\n", &stdout)
}

/// A line without what differs from run to run: numbers and uids.
fn shape(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.trim_end_matches([',', ';']) {
        uid if uid.len() == 36 && uid.matches('-').count() == 4 => "UID".to_owned(),
        number if number.parse::<f64>().is_ok() => "#".to_owned(),
        _ => word.to_owned(),
    });
    // The width of a number moves the words before it.
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The excerpt of a page, after a command that ends so, is what this build prints.
fn the_page_shows(page: &str, command: &str, stdout: &str) -> Result<()> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page))?;
    let (_, excerpt) = page.split_once(command).context("no excerpt")?;
    let (excerpt, _) = excerpt.split_once("```").context("the excerpt does not end")?;
    let stdout: Vec<_> = stdout.lines().map(shape).collect();
    for line in excerpt.lines().filter(|line| *line != "…") {
        ensure!(stdout.contains(&shape(line)), "the demo no longer says what the page shows: {line}");
    }
    Ok(())
}

#[tokio::test]
async fn json_output_has_requests_and_evidence() -> Result<()> {
    let lines = events(&[]).await?;
    let events: Vec<_> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    ensure!(
        events == ["begin", "shop", "scenario", "scenario", "scenario", "scenario", "scenario", "end"],
        "{events:?}"
    );
    let scenarios = &lines[2..7];
    let names: Vec<_> = scenarios.iter().filter_map(|scenario| scenario["name"].as_str()).collect();
    ensure!(names == ["background", "foreground", "orphan", "dangling", "mistake"], "{names:?}");

    let expected: [&[&[&str]]; 5] = [
        &[&[
            "ConfigMap prices remove_references patched",
            "ConfigMap web-routes delete deleted",
            "Pod web-6f7d8c-h2kxv delete deleted",
            "Pod web-6f7d8c-q9zpt delete deleted",
            "ReplicaSet web-5b4c9a delete deleted",
            "ReplicaSet web-6f7d8c delete deleted",
        ]],
        &[
            &[
                "ConfigMap alice-receipt delete deletion_pending",
                "ConfigMap alice-suggestions delete deleted",
            ],
            &["Cart alice remove_finalizer removed"],
        ],
        &[&[
            "ConfigMap prices orphan patched",
            "Deployment api remove_finalizer removed",
            "ReplicaSet api-7c9d5f orphan patched",
        ]],
        &[&["ConfigMap winter-banner delete deleted"]],
        &[&["ConfigMap back-office/shifts delete deleted"]],
    ];
    for (scenario, expected) in scenarios.iter().zip(expected) {
        let found: Vec<_> = elements(&scenario["phases"]).iter().map(steps).collect();
        ensure!(found == expected, "{}: {found:?}", scenario["name"]);
        for phase in elements(&scenario["phases"]) {
            ensure!(!elements(&phase["verified"]).is_empty(), "nothing was verified: {phase}");
            ensure!(phase["milliseconds"].as_f64().is_some_and(|time| time > 0.0), "{phase}");
            for step in elements(&phase["steps"]) {
                explained(step)?;
            }
        }
    }
    // That no watch has shown an owner proves nothing.
    let owner = &scenarios[3]["phases"][0]["steps"][0]["owners"][0];
    ensure!(owner["asked"][0]["code"] == 404, "{owner}");
    Ok(())
}

/// Every step names its request, its preconditions and its evidence.
fn explained(step: &Value) -> Result<()> {
    let request = &step["request"];
    let method = if step["action"] == "delete" { "DELETE" } else { "PATCH" };
    ensure!(request["method"] == method && request["code"] == 200, "{step}");
    ensure!(request["uid"].is_string(), "not bound to the object: {step}");
    if step["action"] == "delete" {
        ensure!(request["resourceVersion"].is_string(), "not bound to its version: {step}");
        let owners = elements(&step["owners"]);
        ensure!(!owners.is_empty(), "without a reason: {step}");
        ensure!(
            owners.iter().all(|owner| owner["class"] == "absent" || owner["class"] == "waiting"),
            "in spite of an owner: {step}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_load_is_collected_with_one_request_per_object() -> Result<()> {
    for policy in ["background", "foreground", "orphan"] {
        let lines = events(&["--objects", "2000", "--policy", policy]).await?;
        let load = lines.iter().find(|line| line["event"] == "load").context("no load")?;
        ensure!(load["objects"] == 2000, "{load}");
        let requests = load["requestsPerObject"].as_f64().context("no requests")?;
        // The root itself takes some requests, and an occasional conflict does not count as a
        // failure.
        ensure!((1.0..1.05).contains(&requests), "{requests} requests per object: {load}");
        ensure!(load["objectsPerSecond"].as_f64().is_some_and(|rate| rate > 1.0), "{load}");
        if cfg!(target_os = "linux") {
            ensure!(load["memory"]["full"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{load}");
        }
    }
    Ok(())
}

/// A demo that keeps running.
struct Stays {
    child: Child,
    kubeconfig: PathBuf,
    health: String,
    debug: String,
    _lines: tokio::io::Lines<BufReader<ChildStdout>>,
    _directory: TempDir,
}

impl Stays {
    async fn start() -> Result<Self> {
        let directory = TempDir::new()?;
        let kubeconfig = directory.path().join("kubeconfig");
        let mut child =
            demo(&["-o", "json", "--kubeconfig"]).arg(&kubeconfig).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let stays = async {
            loop {
                let line = lines.next_line().await?.context("it ended")?;
                let line: Value = serde_json::from_str(&line)?;
                if line["event"] == "stay" {
                    return anyhow::Ok(line);
                }
            }
        };
        let places = timeout(PATIENCE, stays).await.context("it does not stay")??;
        let place = |name: &str| -> Result<String> {
            let url = places[name].as_str().with_context(|| format!("no {name}: {places}"))?;
            Ok(url.trim_start_matches("http://").to_owned())
        };
        ensure!(places["kubeconfig"].as_str() == kubeconfig.to_str(), "{places}");
        let (health, debug) = (place("health")?, place("debug")?);
        Ok(Self { child, kubeconfig, health, debug, _lines: lines, _directory: directory })
    }

    async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(kubectl()?);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args).kill_on_drop(true);
        let output = timeout(PATIENCE, command.output()).await.context("kubectl hangs")??;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {args:?}: {errors}");
        Ok(stdout)
    }

    /// Ends it with a signal. It must exit with 0 and leave nothing behind.
    async fn end(mut self, signal: &str) -> Result<()> {
        let pid = self.child.id().context("it has ended")?;
        ensure!(
            Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().await?.success()
        );
        let status = timeout(PATIENCE, self.child.wait()).await.context("it does not end")??;
        ensure!(status.success(), "SIG{signal}: {status}");
        ensure!(!self.kubeconfig.exists(), "the kubeconfig is left");
        Ok(())
    }
}

/// `kubectl` on the path, or next to the binaries of the real control plane.
fn kubectl() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|at| at.join("kubectl"));
    found.find(|file| file.exists()).map_or_else(|| Ok(binaries(&[])?.join("kubectl")), Ok)
}

#[tokio::test]
async fn kubectl_works_after_the_scenarios() -> Result<()> {
    let demo = Stays::start().await?;
    let names = demo.kubectl(&["-n", "shop", "get", "replicasets,pods,configmaps", "-o", "name"]).await?;
    for left in ["replicaset.apps/api-7c9d5f", "pod/api-7c9d5f-x2kqm", "configmap/prices"] {
        ensure!(names.lines().any(|name| name == left), "{left} is not there: {names}");
    }
    ensure!(get(&demo.health, "/metrics").await?.body.contains("workqueue_adds_total"), "no metrics");
    ensure!(get(&demo.debug, "/debug/graph").await?.body.contains("api-7c9d5f"), "not in the graph");
    // The collector continues, and kubectl waits for it.
    demo.kubectl(&["-n", "shop", "delete", "replicaset", "api-7c9d5f", "--cascade=foreground"]).await?;
    let pods = demo.kubectl(&["-n", "shop", "get", "pods", "-o", "name"]).await?;
    ensure!(pods.is_empty(), "{pods}");
    let events = demo.kubectl(&["-n", "back-office", "get", "events"]).await?;
    ensure!(events.contains("OwnerRefInvalidNamespace"), "{events}");
    demo.end("TERM").await
}

#[tokio::test]
async fn it_ends_cleanly_when_asked_to() -> Result<()> {
    Stays::start().await?.end("INT").await
}

#[tokio::test]
async fn an_address_or_file_in_use_is_named() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?.to_string();
    for (flag, names) in [("--api-listen", "--api-listen"), ("--listen", "--listen")] {
        let output = run(&["--once", flag, &address]).await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(10), "{}: {errors}", output.status);
        ensure!(errors.contains(&address) && errors.contains(names), "{errors}");
    }
    // An existing file belongs to somebody and is not overwritten.
    let directory = TempDir::new()?;
    let precious = directory.path().join("config");
    std::fs::write(&precious, "precious")?;
    let output = run(&["--once", "--kubeconfig", precious.to_str().context("not UTF-8")?]).await?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1) && errors.contains("config"), "{}: {errors}", output.status);
    ensure!(std::fs::read_to_string(&precious)? == "precious");
    let output = run(&["--policy", "orphan"]).await?;
    ensure!(output.status.code() == Some(2), "{}", output.status);
    Ok(())
}

/// The ids of what a plan removes, or of what a pass has removed.
fn ids(items: &Value, goes: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    elements(items).iter().filter(|item| goes(item)).map(|item| item["id"].to_string()).collect()
}

#[tokio::test]
async fn node_collection_names_a_rule_and_a_reason_for_each_item_and_does_what_it_says() -> Result<()> {
    let lines = events(&["--node"]).await?;
    lines.iter().try_for_each(names_are_camel_case)?;
    let events: Vec<_> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    ensure!(events == ["node", "plan", "pass", "plan", "pass", "plan", "pass", "end"], "{events:?}");
    ensure!(lines[0]["node"]["percent"].as_u64() > lines[0]["node"]["high"].as_u64(), "{}", lines[0]);
    let (plan, pass) = (&lines[1]["report"]["entries"], &lines[2]["report"]["result"]);
    for item in elements(plan) {
        ensure!(item["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "without a reason: {item}");
    }
    let rules: BTreeSet<_> = elements(plan).iter().filter_map(|item| item["rule"].as_str()).collect();
    for rule in ["C1", "C3", "C5", "S1", "L1", "I1", "I2", "I4", "I5", "B2", "B5"] {
        ensure!(rules.contains(rule), "no item shows {rule}: {rules:?}");
    }
    let planned = ids(plan, |item| item["decision"] == "remove");
    let removed = ids(&pass["items"], |item| item["outcome"] == "removed");
    ensure!(planned == removed && !removed.is_empty(), "planned {planned:?}, removed {removed:?}");
    for pass in [&lines[2], &lines[4], &lines[6]] {
        ensure!(!elements(&pass["verified"]).is_empty(), "nothing was verified: {pass}");
    }
    // Something began to be used after the plan was made.
    ensure!(
        !ids(&lines[4]["report"]["result"]["items"], |item| item["outcome"] == "refused").is_empty(),
        "{}",
        lines[4]
    );
    let last = &lines[6]["report"]["result"];
    ensure!(last["missingBytes"].as_u64().is_some_and(|bytes| bytes > 0), "{}", lines[6]);
    Ok(())
}

#[tokio::test]
async fn node_collection_can_be_read_and_takes_no_flags_of_the_cluster() -> Result<()> {
    let stdout = said(&["--node"]).await?;
    for text in ["kube-gc demo --node", "remove", "keep", "✓"] {
        ensure!(stdout.contains(text), "no {text}: {stdout}");
    }
    ensure!(!stdout.contains('\u{1b}'), "colours in a pipe");
    the_page_shows("docs/node.md", " demo --node\n", &stdout)?;
    let output = run(&["--node", "--objects", "5"]).await?;
    ensure!(output.status.code() == Some(2), "{}", output.status);
    Ok(())
}
