//! `kube-gc run`: its exit codes, errors and pages.

mod clients;
mod envtest;
mod log;
mod metrics;
mod started;

use std::path::Path;
use std::time::Duration;

use crate::conformance::user::User;
use anyhow::{Context as _, Result, ensure};
use kube_gc_testkit::collector::GRAPH_THREADS;
use kube_gc_testkit::harness::Module;
use kube_gc_testkit::proxy::{Matcher, Proxy, Verb};
use kube_gc_testkit::{Cluster, Collector, Options, Policy, Turn, kubeconfig};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::time::timeout;

kube_gc_testkit::scenarios! {
    a_wrong_configuration_is_refused,
    what_keeps_it_from_starting_is_named,
    it_ends_cleanly_when_asked_to,
    a_dry_run_decides_and_writes_nothing,
    the_probes_answer_and_the_monitors_are_listed,
    the_graph_runs_on_the_configured_threads,
}

/// All scenarios.
pub const ALL: &[Module] = &[
    SCENARIOS,
    clients::SCENARIOS,
    envtest::SCENARIOS,
    log::SCENARIOS,
    metrics::SCENARIOS,
    started::SCENARIOS,
];

/// A run that has ended.
struct Ended {
    code: Option<i32>,
    stderr: String,
}

impl Ended {
    /// Fails unless it ended with this code and printed all of this.
    fn expect(&self, code: i32, said: &[&str]) -> Result<()> {
        let Self { code: found, stderr } = self;
        ensure!(*found == Some(code), "ended with {found:?}, not {code}:\n{stderr}");
        // The log may be coloured, and the end of it contains the error.
        let last = stderr.trim_end().lines().rev().take(3).collect::<Vec<_>>().join("\n");
        for said in said {
            ensure!(last.contains(said), "does not say {said:?} in the end:\n{stderr}");
        }
        ensure!(!stderr.contains("panicked"), "{stderr}");
        Ok(())
    }
}

/// `kube-gc run` with these arguments, which must fail.
async fn run(args: &[&str]) -> Result<Ended> {
    let output = Command::new(env!("CARGO_BIN_EXE_kube-gc"))
        .args(["run", "--debug-listen", "127.0.0.1:0"])
        .args(args)
        .env_remove("KUBECONFIG")
        .kill_on_drop(true)
        .output();
    let output = timeout(Duration::from_secs(60), output).await.context("it does not end")??;
    Ok(Ended { code: output.status.code(), stderr: String::from_utf8_lossy(&output.stderr).into_owned() })
}

fn file(content: &str) -> Result<NamedTempFile> {
    let file = tempfile::Builder::new().prefix("kube-gc-").suffix(".toml").tempfile()?;
    std::fs::write(&file, content)?;
    Ok(file)
}

fn path(file: &NamedTempFile) -> Result<&str> {
    file.path().to_str().context("not UTF-8")
}

/// An invalid configuration: exit code 2, and the error with its position.
async fn a_wrong_configuration_is_refused() -> Result<()> {
    for (content, said) in [
        ("[workers]\ndelet = 3\n", &["workers.delet", "workers.delete"][..]),
        ("[workers]\ndelete = \"many\"\n", &["workers.delete", "many"]),
        ("[log]\nfilter = \"loud\"\n", &["log.filter", "\"loud\"", "info"]),
    ] {
        let file = file(content)?;
        run(&["--config", path(&file)?]).await?.expect(2, &[said, &[path(&file)?]].concat())?;
    }
    for (args, said) in [
        (&["--config", "/no/such/file.toml"][..], &["/no/such/file.toml"][..]),
        (&["--delete-workers", "0"], &["--delete-workers", "1 to 1000"]),
        (&["--delete-workers", "-5"], &["--delete-workers: -5", "1 to 1000"]),
        (&["--no-such-flag"], &[]),
    ] {
        run(args).await?.expect(2, said)?;
    }
    Ok(())
}

/// Each reason has an exit code of its own, and is the end of the log.
async fn what_keeps_it_from_starting_is_named() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let malformed = file("clusters: [{name: x, cluster: {server: ")?;
    let nobody = kubeconfig(&json!({ "server": "https://127.0.0.1:1" }), &json!({}));
    let nobody = file(&nobody.to_string())?;
    let stranger = User::with_token(plane, "nobody")?;
    let user = User::create(plane, &cluster, &ns, json!([])).await?;
    let occupied = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = occupied.local_addr()?.to_string();
    let (free, own) = ("127.0.0.1:0", plane.kubeconfig());
    for (kubeconfig, more, listen, code, said) in [
        (Path::new("/no/such/kubeconfig"), &[][..], free, 3, &["/no/such/kubeconfig"][..]),
        (malformed.path(), &[], free, 3, &[path(&malformed)?]),
        (own, &["--context", "elsewhere"], free, 3, &["elsewhere"]),
        (nobody.path(), &[], free, 4, &["127.0.0.1:1"]),
        (stranger.kubeconfig(), &[], free, 5, &["401"]),
        (user.kubeconfig(), &[], free, 6, &["may not list any resource type", "role", "deploy/README.md"]),
        (own, &[], &*address, 10, &[&*address, "another process", "--listen"]),
    ] {
        let kubeconfig = kubeconfig.to_str().context("not UTF-8")?;
        let args = [&["--kubeconfig", kubeconfig, "--listen", listen], more].concat();
        run(&args).await?.expect(code, said)?;
    }
    Ok(())
}

/// On SIGTERM and SIGINT it ends with exit code 0.
async fn it_ends_cleanly_when_asked_to() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    for signal in ["TERM", "INT"] {
        let collector = Collector::start(plane, Options::default()).await?;
        collector.ready().await?;
        collector.signal(signal)?;
        let status = collector.wait().await?;
        ensure!(status.success(), "SIG{signal}: {status}");
        // It has ended, so this only suppresses the log.
        collector.kill()?;
    }
    // Also before it has connected.
    let collector = Collector::start(plane, Options::default()).await?;
    collector.stop().await
}

/// `--dry-run` decides, reports, and writes nothing (rule 6.9).
async fn a_dry_run_decides_and_writes_nothing() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;

    let owner = ns.configmap("owner").create().await?;
    let keeper = ns.configmap("keeper").create().await?;
    let garbage = ns.secret("garbage").owned_by(&owner).create().await?;
    let shared = ns.secret("shared").owned_by(&owner).owned_by(&keeper).create().await?;
    cluster.delete(&owner, Policy::Background).await?;

    let waiting = ns.configmap("waiting").create().await?;
    let blocks = ns.secret("blocks").owned_by(&waiting).blocking().create().await?;
    let alone = ns.configmap("alone").finalizer("example.com/hold").create().await?;
    for object in [&waiting, &alone] {
        cluster.delete(object, Policy::Foreground).await?;
    }
    let orphaned = ns.configmap("orphaned").create().await?;
    let orphan = ns.secret("orphan").owned_by(&orphaned).create().await?;
    cluster.delete(&orphaned, Policy::Orphan).await?;

    let mut all = Vec::new();
    for object in [&keeper, &garbage, &shared, &waiting, &blocks, &alone, &orphaned, &orphan] {
        all.push(cluster.fresh(object).await?);
    }
    // Not according to the API server's counters, because it writes by itself after its start.
    let proxy = Proxy::start(plane).await?;
    let collector = Collector::start_with(proxy.kubeconfig(), Options::default().arg("--dry-run")).await?;
    collector.ready().await?;
    cluster.settled_with_parked(&collector).await?;
    // Discovery requests are not about a resource.
    let writes = Matcher::default().when(|request| match request.verb {
        Verb::Get | Verb::List | Verb::Watch => false,
        Verb::Delete | Verb::Patch => true,
        Verb::Other => !request.resource.is_empty(),
    });
    let requests = proxy.all(&writes);
    ensure!(requests.is_empty(), "it has written: {requests:?}");
    for object in &all {
        let now = cluster.fresh(object).await?;
        ensure!(now.resource_version == object.resource_version, "it has changed {object} to {}", now.raw);
    }
    // The log contains what it would have done, object by object.
    for object in [&garbage, &shared, &blocks, &alone, &orphaned] {
        let line = collector.log_line(&object.uid).await?;
        ensure!(line.contains("dry"), "not said to be dry: {line}");
    }
    collector.stop().await
}

/// `/livez`, `/readyz`, and `/debug/monitors`: an array with exactly these fields.
async fn the_probes_answer_and_the_monitors_are_listed() -> Result<()> {
    let turn = Turn::take().await?;
    let collector = Collector::start(turn.plane(), Options::default()).await?;
    ensure!(collector.get("/livez").await?.status == 200);
    let early = collector.get("/readyz").await?;
    ensure!(early.status == 200 || early.body.contains("[-]"), "{early:?}");
    collector.ready().await?;
    let verbose = collector.get("/readyz?verbose").await?;
    ensure!(verbose.status == 200, "{verbose:?}");
    for line in ["[+]discovery ok", "[+]sync ok", "readyz check passed"] {
        ensure!(verbose.body.contains(line), "no {line:?}: {}", verbose.body);
    }
    ensure!(collector.get("/nowhere").await?.status == 404);

    let monitors = collector.monitors().await?;
    for monitor in &monitors {
        let mut names: Vec<_> = monitor.as_object().context("no object")?.keys().collect();
        names.sort_unstable();
        ensure!(names == ["group", "last_error", "resource", "since", "synced", "version"], "{monitor}");
        ensure!(monitor["synced"] == true && monitor["last_error"].is_null(), "{monitor}");
        let since = monitor["since"].as_str().context("no text")?;
        ensure!(since.len() == 20 && since.ends_with('Z') && since.contains('T'), "{since}");
    }
    for (group, resource, version) in
        [("", "configmaps", Some("v1")), ("apps", "deployments", Some("v1")), ("", "events", None)]
    {
        let of = |monitor: &&Value| monitor["group"] == group && monitor["resource"] == resource;
        let found = monitors.iter().find(of).and_then(|monitor| monitor["version"].as_str());
        ensure!(found == version, "{resource}: {found:?}");
    }
    collector.stop().await
}

/// The partitions of the graph have their own threads or none, according to the setting.
async fn the_graph_runs_on_the_configured_threads() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    // One more than `partitions`, for cluster-scoped objects.
    for (threads, of_the_graph) in [("own", 3), ("shared", 0)] {
        let mut options = Options::env(GRAPH_THREADS, threads);
        options.config = Some("[graph]\npartitions = 2\n".to_owned());
        let collector = Collector::start(plane, options).await?;
        collector.ready().await?;
        let mut found = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", collector.pid()))? {
            found += usize::from(std::fs::read_to_string(thread?.path().join("comm"))?.trim() == "graph");
        }
        ensure!(found == of_the_graph, "{found} threads of the graph with {threads:?}, not {of_the_graph}");
        collector.stop().await?;
    }
    Ok(())
}
