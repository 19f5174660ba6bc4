//! The test harness itself: a control plane starts, answers, and ends with the process that
//! started it. The client for scenarios writes what a scenario describes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ApiResource, ListParams};
use kube_gc_testkit::{Cluster, ControlPlane, Policy, Scope, Server};
use serde_json::json;

/// Set for the process that [`a_control_plane_ends_with_a_killed_process`] kills.
const HOLDER: &str = "KUBE_GC_TEST_HOLDER";

/// Replacements for Debian's tools and `make`, as far as building a control plane needs them:
/// each creates the expected files, and `make` records its environment.
const TOOLS: &str = r#"#!/usr/bin/env bash
case ${0##*/} in
  apt-cache) printf 'etcd-server | 1 | http://archive.invalid stable/main amd64 Packages\n' ;;
  apt-get)
    case $* in
      *' source '*) touch kubernetes_1.dsc ;;
      *' download '*) touch etcd-server_1.deb golang-github-modern-go-reflect2-dev_1.deb ;;
    esac ;;
  dpkg-source) mkdir -p src/vendor && touch src/vendor/modules.txt ;;
  dpkg-deb) mkdir -p "$3/usr/bin" && install /dev/null "$3/usr/bin/etcd" ;;
  dpkg-parsechangelog) printf '1.20.5+really1.20.2-1.1\n' ;;
  make)
    env >"${0%/*}/environment"
    mkdir -p _output/bin
    for target in ${1#WHAT=}; do install /dev/null "_output/bin/${target#cmd/}"; done ;;
  kubectl) ;;
  sudo) exec "$@" ;;
esac
"#;

/// Waits until none of these processes exists.
fn assert_gone(pids: &[u32]) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let exists = |pid: &&u32| std::fs::exists(format!("/proc/{pid}")).unwrap_or(false);
    while let Some(pid) = pids.iter().find(exists) {
        ensure!(Instant::now() < deadline, "process {pid} is still there");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Kubernetes' makefiles obey many variables. cargo sets one of them, `OUT_DIR`, for tests and
/// benchmarks, which build the control plane if it is missing.
#[test]
fn the_environment_does_not_change_how_a_control_plane_is_built() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let tools = dir.path().join("tools");
    std::fs::create_dir(&tools)?;
    let script = tools.join("script");
    std::fs::write(&script, TOOLS)?;
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755))?;
    let names =
        ["apt-cache", "apt-get", "dpkg-source", "dpkg-deb", "dpkg-parsechangelog", "make", "kubectl", "sudo"];
    for name in names {
        symlink(&script, tools.join(name))?;
    }
    let path = std::env::var("PATH")?;
    let foreign = ["OUT_DIR", "KUBE_BUILD_PLATFORMS", "GOFLAGS", "MAKEFLAGS"];
    let built = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane/ensure.sh"))
        // A component that no machine has, so that there is something to build.
        .arg("kube-nowhere")
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("KUBE_GC_CACHE", dir.path().join("cache"))
        .envs(foreign.map(|name| (name, "foreign")))
        .output()?;
    ensure!(built.status.success(), "{built:?}");
    let place = String::from_utf8(built.stdout)?;
    ensure!(std::path::Path::new(place.trim()).join("kube-nowhere").exists(), "{place}");
    let environment = std::fs::read_to_string(tools.join("environment"))?;
    let value = |name| environment.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    ensure!(value("PATH").is_some_and(|path| path.starts_with("/usr/lib/go/bin:")), "{environment}");
    for name in foreign {
        ensure!(value(name).is_none(), "{name}: {environment}");
    }
    Ok(())
}

#[tokio::test]
async fn a_control_plane_answers_and_ends_when_its_value_is_dropped() -> Result<()> {
    let plane = ControlPlane::start()?;
    let info = plane.info().clone();
    let pids = [info.apiserver_pid.context("no pid")?, info.etcd_pid.context("no pid")?];

    let client = plane.client().await?;
    let version = client.apiserver_version().await?;
    ensure!(version.git_version == info.version, "{version:?} is not {}", info.version);
    let namespaces = Api::<Namespace>::all(client).list(&ListParams::default()).await?;
    ensure!(namespaces.items.iter().any(|namespace| namespace.metadata.name.as_deref() == Some("default")));

    drop(plane);
    assert_gone(&pids)?;
    ensure!(!info.dir.exists(), "{} is still there", info.dir.display());
    Ok(())
}

/// Runs this test in another process, which starts a control plane and is killed.
#[test]
fn a_control_plane_ends_with_a_killed_process() -> Result<()> {
    if std::env::var_os(HOLDER).is_some() {
        let plane = ControlPlane::start()?;
        let info = plane.info();
        println!("pids: {} {}", info.apiserver_pid.context("no pid")?, info.etcd_pid.context("no pid")?);
        loop {
            thread::park();
        }
    }
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["--exact", "a_control_plane_ends_with_a_killed_process", "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = holder.stdout.take().context("no pipe")?;
    let said = BufReader::new(stdout).lines().map_while(Result::ok).find_map(|line| {
        let (_, pids) = line.split_once("pids: ")?;
        pids.split(' ').map(|pid| pid.parse().ok()).collect::<Option<Vec<u32>>>()
    });
    holder.kill()?;
    holder.wait()?;
    assert_gone(&said.context("the holder did not say its pids")?)
}

#[tokio::test]
async fn restarted_servers_keep_their_address_and_data() -> Result<()> {
    let plane = ControlPlane::start()?;
    let cluster = Cluster::new(plane.client().await?);
    let kept = cluster.namespace().await?.configmap("kept").create().await?;

    let down = plane.kill(Server::KubeApiserver)?;
    ensure!(down.apiserver_pid.is_none() && down.etcd_pid == plane.info().etcd_pid, "{down:?}");
    ensure!(cluster.get(&kept).await.is_err(), "it answers");
    let up = plane.restart(Server::KubeApiserver).await?;
    ensure!(up.apiserver_pid.is_some() && up.url == plane.info().url, "{up:?}");
    cluster.assert_kept([&kept]).await
}

/// The script reads its commands a byte at a time, and in between it looks at its servers once a
/// second. A command that such a look divides is still one command.
#[test]
fn a_command_may_arrive_slowly() -> Result<()> {
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane/serve.sh"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut commands = script.stdin.take().context("no pipe to the script")?;
    let mut answers = BufReader::new(script.stdout.take().context("no pipe from the script")?).lines();
    answers.next().context("the script ended")??;

    for piece in ["k", "ill ", "kube-apiserver\n"] {
        commands.write_all(piece.as_bytes())?;
        // Longer than the time between two looks.
        thread::sleep(Duration::from_millis(1_200));
    }
    let answer = answers.next().context("the script ended")??;
    ensure!(answer.contains(r#""apiserver_pid":null"#), "{answer}");

    drop(commands);
    let status = script.wait()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[tokio::test]
async fn a_control_plane_continues_with_the_data_of_a_directory() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let plane = ControlPlane::start_with(Some(dir.path()), &[])?;
    let first = plane.info().clone();
    let client = plane.client().await?;
    let cluster = Cluster::new(client.clone());
    let kept = cluster.namespace().await?.configmap("kept").create().await?;
    plane.stop();

    let plane = ControlPlane::start_with(Some(dir.path()), &["--event-ttl=2h"])?;
    ensure!(plane.info().url == first.url && plane.info().etcd == first.etcd);
    // The old client still works, and so does the old kubeconfig.
    cluster.assert_kept([&kept]).await
}

#[tokio::test]
async fn the_client_writes_what_a_scenario_describes() -> Result<()> {
    let plane = ControlPlane::shared()?;
    let _turn = plane.exclusive().await;
    let cluster = Cluster::new(plane.client().await?);
    let before = cluster.request_counts().await?;
    let ns = cluster.namespace().await?;

    let owner = ns.configmap("owner").create().await?;
    let wrong = json!({ "apiVersion": "no.such/v9", "kind": "thing", "name": "x", "uid": "not a uid" });
    let dependent = ns
        .secret("dependent")
        .owned_by(&owner)
        .blocking()
        .owner_reference(wrong)
        .finalizer("example.com/hold")
        .label("a", "b")
        .create()
        .await?;
    ensure!(dependent.owner_uids() == [owner.uid.as_str(), "not a uid"], "{}", dependent.raw);
    ensure!(dependent.owner_references()?[0].block_owner_deletion == Some(true), "{}", dependent.raw);
    ensure!(ns.pod("pod").create().await?.namespace.as_deref() == Some(ns.name()));

    cluster.delete(&owner, Policy::Foreground).await?;
    let owner = cluster.fresh(&owner).await?;
    ensure!(owner.is_terminating() && owner.finalizers() == ["foregroundDeletion"], "{}", owner.raw);
    cluster.assert_kept([&owner, &dependent]).await?;
    ensure!(cluster.assert_gone([&owner]).await.is_err());

    // A finalizer keeps it. Without the finalizer, it is gone.
    cluster.delete(&dependent, Policy::Background).await?;
    cluster.assert_kept([&dependent]).await?;
    let last = cluster.set_finalizers(&dependent, &[]).await?;
    cluster.assert_gone([&dependent]).await?;
    let again = ns.secret("dependent").create().await?;
    ensure!(!cluster.exists_with_uid(&last).await? && cluster.exists_with_uid(&again).await?);

    let seen = cluster.seen();
    ensure!(seen.contains(&("secrets".to_owned(), again.resource_version.clone())), "{seen:?}");
    ensure!(cluster.events(&owner).await?.is_empty());

    let counts = cluster.request_counts().await?.since(&before);
    ensure!(counts.get("POST", "secrets") == 2 && counts.get("DELETE", "configmaps") == 1, "{counts:?}");
    ensure!(counts.get("PATCH", "secrets") == 1 && counts.writes() >= 8, "{counts:?}");

    let many =
        kube_gc_testkit::cluster::create_all((0..50).map(|n| ns.configmap(format!("many-{n}")))).await?;
    ensure!(many[49].name == "many-49");
    cluster.delete_all(&many, Policy::Background).await?;
    cluster.assert_gone(&many).await
}

#[tokio::test]
async fn custom_resources_can_be_created_and_deleted() -> Result<()> {
    let plane = ControlPlane::shared()?;
    let _turn = plane.exclusive().await;
    let cluster = Cluster::new(plane.client().await?);
    cluster.remove_leftover_crds().await?;
    let ns = cluster.namespace().await?;

    let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1", "v1beta1"]).await?;
    let widget = ns.object(widgets.resource(), "w").field("spec", json!({ "size": 1 })).create().await?;
    ensure!(widget.resource_key() == "widgets.example.com");
    let old = ns.object(&widgets.resource_at("v1beta1"), "old").owned_by(&widget).create().await?;
    ensure!(old.raw["apiVersion"] == "example.com/v1beta1");
    widgets.remove().await?;
    cluster.assert_gone([&widget]).await?;

    // Left over from another test, with an object that a finalizer keeps.
    let gadgets = cluster.crd("gadgets.example.com", Scope::Cluster, &["v1"]).await?;
    let gadget = cluster.object(gadgets.resource(), "g").finalizer("example.com/hold").create().await?;
    cluster.crd("gadgets.example.com", Scope::Cluster, &["v1"]).await?;
    cluster.assert_gone([&gadget]).await?;
    cluster.remove_leftover_crds().await?;

    // A namespace is removed once it is finalized.
    cluster.delete(ns.as_object(), Policy::Background).await?;
    ns.finalize().await?;
    cluster.assert_gone([ns.as_object()]).await?;
    let configmaps = ApiResource::erase::<ConfigMap>(&());
    ensure!(!cluster.list(&configmaps, None).await?.is_empty());
    Ok(())
}
