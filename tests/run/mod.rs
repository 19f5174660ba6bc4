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
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::collector::GRAPH_THREADS;
use kube_gc_testkit::harness::Module;
use kube_gc_testkit::proxy::{Matcher, Proxy, Verb};
use kube_gc_testkit::{Cluster, Collector, Options, Policy, Turn};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::time::timeout;

kube_gc_testkit::scenarios! {
    a_port_in_use_is_named,
    it_ends_cleanly_when_asked_to,
    a_wrong_configuration_is_refused,
    a_kubeconfig_that_cannot_be_used_is_refused,
    an_unreachable_server_is_named,
    wrong_credentials_are_refused,
    a_user_who_may_list_nothing_gets_an_error,
    a_dry_run_decides_and_writes_nothing,
    the_probes_answer,
    the_monitors_are_listed,
    the_graph_runs_on_the_configured_threads,
    the_graph_page_shows_the_graph,
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
    run_at("127.0.0.1:0", args).await
}

/// The same with an address for health and metrics.
async fn run_at(address: &str, args: &[&str]) -> Result<Ended> {
    let output = Command::new(env!("CARGO_BIN_EXE_kube-gc"))
        .arg("run")
        .args(["--listen", address, "--debug-listen", "127.0.0.1:0"])
        .args(args)
        .env_remove("KUBECONFIG")
        .kill_on_drop(true)
        .output();
    let output = timeout(Duration::from_secs(60), output).await.context("it does not end")??;
    Ok(Ended { code: output.status.code(), stderr: String::from_utf8_lossy(&output.stderr).into_owned() })
}

async fn run_as(kubeconfig: &Path) -> Result<Ended> {
    run(&["--kubeconfig", kubeconfig.to_str().context("not UTF-8")?]).await
}

fn file(content: &str) -> Result<NamedTempFile> {
    let file = tempfile::Builder::new().prefix("kube-gc-").suffix(".toml").tempfile()?;
    std::fs::write(&file, content)?;
    Ok(file)
}

fn path(file: &NamedTempFile) -> Result<&str> {
    file.path().to_str().context("not UTF-8")
}

/// The port is in use: exit code 10, and the address.
async fn a_port_in_use_is_named() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let kubeconfig = plane.kubeconfig().to_str().context("not UTF-8")?;
    let occupied = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = occupied.local_addr()?.to_string();
    let ended = run_at(&address, &["--kubeconfig", kubeconfig]).await?;
    ended.expect(10, &[&address, "another process", "--listen"])
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

/// An invalid configuration: exit code 2, and the error with its position.
async fn a_wrong_configuration_is_refused() -> Result<()> {
    let unknown = file("[workers]\ndelet = 3\n")?;
    let ended = run(&["--config", path(&unknown)?]).await?;
    ended.expect(2, &["workers.delet", path(&unknown)?, "workers.delete"])?;

    let value = file("[workers]\ndelete = \"many\"\n")?;
    run(&["--config", path(&value)?]).await?.expect(2, &["workers.delete", "many", path(&value)?])?;

    run(&["--config", "/no/such/file.toml"]).await?.expect(2, &["/no/such/file.toml"])?;
    run(&["--delete-workers", "0"]).await?.expect(2, &["--delete-workers", "1 to 1000"])?;
    run(&["--delete-workers", "-5"]).await?.expect(2, &["--delete-workers: -5", "1 to 1000"])?;
    let silent = file("[log]\nfilter = \"loud\"\n")?;
    run(&["--config", path(&silent)?])
        .await?
        .expect(2, &["log.filter", "\"loud\"", "info", path(&silent)?])?;
    run(&["--no-such-flag"]).await?.expect(2, &[])
}

/// An unusable kubeconfig: exit code 3, and the reason.
async fn a_kubeconfig_that_cannot_be_used_is_refused() -> Result<()> {
    run_as(Path::new("/no/such/kubeconfig")).await?.expect(3, &["/no/such/kubeconfig"])?;

    let malformed = file("clusters: [{name: x, cluster: {server: ")?;
    run_as(malformed.path()).await?.expect(3, &[path(&malformed)?])?;

    let turn = Turn::take().await?;
    let plane = turn.plane();
    let kubeconfig = plane.kubeconfig().to_str().context("not UTF-8")?;
    let ended = run(&["--kubeconfig", kubeconfig, "--context", "elsewhere"]).await?;
    ended.expect(3, &["elsewhere"])
}

/// An unreachable server: exit code 4, and its address.
async fn an_unreachable_server_is_named() -> Result<()> {
    let nobody = file(
        &json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "test", "cluster": { "server": "https://127.0.0.1:1" } }],
            "users": [{ "name": "user", "user": {} }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "user" } }],
            "current-context": "test",
        })
        .to_string(),
    )?;
    run_as(nobody.path()).await?.expect(4, &["127.0.0.1:1"])
}

/// Failed authentication: exit code 5.
async fn wrong_credentials_are_refused() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let stranger = User::with_token(plane, "nobody")?;
    run_as(stranger.kubeconfig()).await?.expect(5, &["401"])
}

/// Failed authorization of all lists: exit code 6.
async fn a_user_who_may_list_nothing_gets_an_error() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let user = User::create(plane, &cluster, &ns, json!([])).await?;
    run_as(user.kubeconfig())
        .await?
        .expect(6, &["may not list any resource type", "role", "deploy/README.md"])
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

/// The probes.
async fn the_probes_answer() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let collector = Collector::start(plane, Options::default()).await?;
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
    collector.stop().await
}

/// `/debug/monitors`: an array with exactly these fields.
async fn the_monitors_are_listed() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let collector = Collector::start(plane, Options::default()).await?;
    collector.ready().await?;
    let answer = collector.get_debug("/debug/monitors").await?.json()?;
    let monitors = answer.as_array().context("no array")?;
    for monitor in monitors {
        let fields = monitor.as_object().context("no object")?;
        let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
        names.sort_unstable();
        ensure!(names == ["group", "last_error", "resource", "since", "synced", "version"], "{monitor}");
        ensure!(monitor["synced"] == true && monitor["last_error"].is_null(), "{monitor}");
        let since = monitor["since"].as_str().context("no text")?;
        ensure!(since.len() == 20 && since.ends_with('Z') && since.contains('T'), "{since}");
    }
    let find = |group: &str, resource: &str| {
        monitors.iter().find(|monitor| monitor["group"] == group && monitor["resource"] == resource)
    };
    ensure!(find("", "configmaps").context("no configmaps")?["version"] == "v1");
    ensure!(find("apps", "deployments").context("no deployments")?["version"] == "v1");
    ensure!(find("", "events").is_none() && find("events.k8s.io", "events").is_none(), "{answer}");
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

/// `/debug/graph`: DOT, JSON, and the connected component of given uids (rule 9.4).
async fn the_graph_page_shows_the_graph() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let owner = ns.configmap("owner").create().await?;
    let child = ns.secret("child").owned_by(&owner).blocking().create().await?;
    // A finalizer keeps the child while its deletion is checked below.
    let grandchild = ns.pod("grandchild").owned_by(&child).blocking().finalizer("example.com/hold");
    let grandchild = grandchild.create().await?;
    let other = ns.configmap("other").create().await?;
    let others = ns.secret("others").owned_by(&other).create().await?;
    let alone = ns.configmap("alone").create().await?;
    let collector = Collector::start(plane, Options::default()).await?;
    collector.ready().await?;
    cluster.settled(&collector).await?;

    let dot = collector.get_debug("/debug/graph").await?;
    ensure!(dot.status == 200 && dot.body.trim_start().starts_with("strict digraph"), "{dot:?}");
    for object in [&owner, &child, &grandchild, &other, &others] {
        ensure!(dot.body.contains(&object.uid), "no {object}");
    }
    // Only nodes that have an edge.
    ensure!(!dot.body.contains(&alone.uid), "{}", dot.body);
    let fields = ["label", "group", "version", "kind", "namespace", "name", "uid"];
    let flags = ["missing", "beingDeleted", "deletingDependents", "virtual"];
    for field in fields.iter().chain(&flags) {
        ensure!(dot.body.contains(&format!("{field}=")), "no {field}: {}", dot.body);
    }

    let one = collector.get_debug(&format!("/debug/graph?uid={}", child.uid)).await?;
    for (object, shown) in [(&owner, true), (&child, true), (&grandchild, true), (&other, false)] {
        ensure!(one.body.contains(&object.uid) == shown, "{object}: {}", one.body);
    }
    let both = format!("/debug/graph?uid={}&uid={}", child.uid, others.uid);
    let both = collector.get_debug(&both).await?;
    ensure!(both.body.contains(&owner.uid) && both.body.contains(&other.uid), "{}", both.body);

    let path = format!("/debug/graph?uid={}&format=json", grandchild.uid);
    let json = collector.get_debug(&path).await?.json()?;
    let nodes = json["nodes"].as_array().with_context(|| format!("no nodes: {json}"))?;
    ensure!(nodes.len() == 3, "{json}");
    let node = nodes.iter().find(|node| node["uid"] == child.uid.as_str()).context("no child")?;
    for (field, value) in [("kind", "Secret"), ("name", "child"), ("namespace", ns.name()), ("version", "v1")]
    {
        ensure!(node[field] == value, "{field}: {node}");
    }
    for flag in flags {
        ensure!(node[flag] == Value::Bool(false), "{flag}: {node}");
    }

    let unknown = "/debug/graph?uid=00000000-0000-4000-8000-000000000000";
    ensure!(collector.get_debug(unknown).await?.status == 404);
    // One known uid is enough.
    let known = collector.get_debug(&format!("{unknown}&uid={}", child.uid)).await?;
    ensure!(known.status == 200, "{known:?}");

    // The graph follows changes.
    cluster.delete(&child, Policy::Foreground).await?;
    let path = format!("/debug/graph?uid={}&format=json", child.uid);
    poll("the graph to show the deletion", async || {
        let json = collector.get_debug(&path).await?.json()?;
        let nodes = json["nodes"].as_array().cloned().unwrap_or_default();
        let child = nodes.into_iter().find(|node| node["uid"] == child.uid.as_str());
        Ok(child.is_some_and(|child| child["beingDeleted"] == true))
    })
    .await?;
    cluster.set_finalizers(&grandchild, &[]).await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}
