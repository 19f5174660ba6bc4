//! Node collection as the DaemonSet runs it: as root without capabilities, on a container runtime
//! inside this process, with the rights of its service account.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use kube_gc_cri::Rpc;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{
    Code, CriServer, Effect, Fault, NewContainer, NewImage, NewSandbox, Settings, World,
};
use kube_gc_testkit::Collector;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, NODE, NODE_NAME, Pod, plane};

kube_gc_testkit::scenarios! {
    the_node_overlay_reports_and_removes_nothing,
    with_a_configuration_that_allows_it_the_daemon_set_removes_what_is_dead,
    a_pod_under_a_wrong_node_name_is_not_ready_and_removes_nothing,
    what_cannot_be_removed_is_an_event_about_the_node,
}

const CALLS_THAT_CHANGE: [Rpc; 5] =
    [Rpc::StopContainer, Rpc::RemoveContainer, Rpc::StopPodSandbox, Rpc::RemovePodSandbox, Rpc::RemoveImage];

/// A node with a container runtime, and the overlay for it.
struct Node {
    installation: Installation<'static>,
    runtime: CriServer,
}

/// A pod of the API server.
struct ApiPod {
    name: &'static str,
    uid: String,
}

impl Node {
    async fn set_up() -> Result<Self> {
        let installation = Installation::of(plane()?, "node").await?;
        let mut world = World::default();
        world.add_image(NewImage { tags: vec!["app:1".to_owned()], ..NewImage::default() });
        let runtime = CriServer::start(Settings::default(), world)?;
        Ok(Self { installation, runtime })
    }

    /// Configures it to remove whatever it may beside a kubelet, every second.
    async fn let_it_remove(&self) -> Result<()> {
        let config = self.installation.configuration().await?;
        let config = format!("{config}\n[node]\nbeside_kubelet = \"all\"\nperiod = \"1s\"\n");
        self.installation.configure(&config).await
    }

    /// Creates a pod that is bound to a node.
    async fn pod(&self, name: &'static str, node: &str) -> Result<ApiPod> {
        let path = format!("/api/v1/namespaces/{NODE}/pods");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name },
            "spec": {
                "nodeName": node, "containers": [{ "name": "app", "image": "app:1" }],
                // Nothing creates the one with the name `default` here.
                "serviceAccountName": NODE, "automountServiceAccountToken": false,
            },
        });
        let cluster = &self.installation.cluster;
        // Of an earlier scenario.
        let _ = cluster.send("DELETE", &format!("{path}/{name}?gracePeriodSeconds=0"), None, None).await;
        let created = cluster.send("POST", &path, None, Some(&pod)).await?;
        let uid = created["metadata"]["uid"].as_str().context("no uid")?.to_owned();
        let object = format!("{path}/{name}/status");
        let status = json!({ "status": { "phase": "Running" } });
        cluster.send("PATCH", &object, Some("application/merge-patch+json"), Some(&status)).await?;
        Ok(ApiPod { name, uid })
    }

    /// Adds what a pod has on the node: its sandbox, and containers in these states. Returns their ids.
    fn on_node(&self, name: &str, uid: &str, states: &[ContainerState]) -> Vec<String> {
        let ready = states.contains(&ContainerState::ContainerRunning);
        self.runtime.world(|world| {
            let annotations = [("kubernetes.io/config.source".to_owned(), "api".to_owned())].into();
            let sandbox = NewSandbox { stopped: !ready, annotations, ..NewSandbox::of(NODE, name, uid) };
            let sandbox = world.add_sandbox(sandbox);
            let add = |(attempt, state): (u32, &ContainerState)| {
                world.add_container(NewContainer {
                    sandbox: sandbox.clone(),
                    name: "app".to_owned(),
                    attempt,
                    image: "app:1".to_owned(),
                    state: *state,
                    created_at: 1 + i64::from(attempt),
                    log_path: format!("/var/log/pods/{NODE}_{name}_{uid}/app/{attempt}.log"),
                    ..NewContainer::default()
                })
            };
            (0..).zip(states).map(add).collect()
        })
    }

    /// Starts the pod of the DaemonSet on this node. The files that `logs` makes are beneath the root
    /// of the pod.
    async fn start(&self, logs: impl Fn(&Path) -> Result<()>) -> Result<(Pod, Collector)> {
        let pod = Pod::of(&self.installation).await?;
        // Another name of the same socket, as in a mounted directory.
        std::fs::hard_link(self.runtime.endpoint().path(), pod.path("/run/containerd/containerd.sock"))?;
        logs(&pod.path("/var/log/pods"))?;
        let collector = pod.start().await?;
        Ok((pod, collector))
    }

    fn containers(&self) -> Vec<String> {
        self.runtime.world(|world| world.containers().map(|container| container.id.clone()).collect())
    }

    /// What was asked of the runtime that changes something.
    fn changes(&self) -> usize {
        CALLS_THAT_CHANGE.iter().map(|rpc| self.runtime.calls(*rpc).len()).sum()
    }
}

/// The last plan.
async fn report(collector: &Collector) -> Result<Value> {
    let mut report = Value::Null;
    poll("a plan", async || {
        let page = collector.get_debug("/debug/node").await?;
        report = if page.status == 200 { page.json()? } else { Value::Null };
        Ok(!report.is_null())
    })
    .await?;
    Ok(report)
}

/// The entry of an item.
fn entry<'a>(report: &'a Value, id: &str) -> Result<&'a Value> {
    let entries = report["entries"].as_array().context("no entries")?;
    entries.iter().find(|entry| entry["id"] == id).with_context(|| format!("no entry {id}: {report}"))
}

/// The kubelet of a pod may be any, so nothing is removed unless the configuration says so. The probes
/// are those of the manifest.
async fn the_node_overlay_reports_and_removes_nothing() -> Result<()> {
    use ContainerState::{ContainerExited, ContainerRunning};
    let node = Node::set_up().await?;
    let living = node.pod("living", NODE_NAME).await?;
    let of_living =
        node.on_node(living.name, &living.uid, &[ContainerExited, ContainerExited, ContainerRunning]);
    let of_gone = node.on_node("gone", "0badc0de-0000-4000-8000-000000000000", &[ContainerExited]);
    let (_pod, collector) = node.start(|_| Ok(())).await?;
    collector.ready().await?;
    let report = report(&collector).await?;
    ensure!(report["node"] == NODE_NAME && report["wrongNode"] == false, "{report}");
    ensure!(report["dryRun"].is_string() && report["effects"] == "nothing", "{report}");
    // It has found out that the pod is gone, with its own rights.
    for (id, decision, rule) in [
        (&of_gone[0], "remove", "C3"),
        (&of_living[0], "remove", "C5"),
        (&of_living[1], "keep", "C5"),
        (&of_living[2], "keep", "C1"),
    ] {
        let entry = entry(&report, id)?;
        let kept_beside = entry["rule"] == "safety 3" && decision == "keep";
        ensure!(entry["decision"] == decision && (entry["rule"] == rule || kept_beside), "{entry}");
    }
    ensure!(node.changes() == 0, "{} calls changed something", node.changes());

    let spec = node.installation.workload().await?["spec"]["template"]["spec"].take();
    for probe in ["livenessProbe", "readinessProbe"] {
        let get = &spec["containers"][0][probe]["httpGet"];
        ensure!(get["port"] == "http", "{get}");
        let answer = collector.get(get["path"].as_str().context("no path")?).await?;
        ensure!(answer.status == 200, "{probe}: {} {}", answer.status, answer.body);
    }
    let config = node.installation.configuration().await?;
    ensure!(
        config.contains(":8080") && spec["containers"][0]["ports"][0]["containerPort"] == 8080,
        "{config}"
    );
    collector.stop().await
}

async fn with_a_configuration_that_allows_it_the_daemon_set_removes_what_is_dead() -> Result<()> {
    use ContainerState::{ContainerExited, ContainerRunning};
    let node = Node::set_up().await?;
    node.let_it_remove().await?;
    let living = node.pod("living", NODE_NAME).await?;
    let of_living =
        node.on_node(living.name, &living.uid, &[ContainerExited, ContainerExited, ContainerRunning]);
    let gone = "0badc0de-0000-4000-8000-000000000000";
    node.on_node("gone", gone, &[ContainerExited]);
    let log = format!("{NODE}_gone_{gone}/app/0.log");
    let (pod, collector) = node
        .start(|logs| {
            let log = logs.join(&log);
            std::fs::create_dir_all(log.parent().context("no directory")?)?;
            Ok(std::fs::write(log, "a line\n")?)
        })
        .await?;
    poll("what is dead to go", async || Ok(node.containers().len() == 2)).await?;
    ensure!(!node.containers().contains(&of_living[0]), "the oldest stays: {:?}", node.containers());
    poll("its sandbox to go", async || Ok(node.runtime.world(|world| world.sandboxes().count()) == 1))
        .await?;
    ensure!(!pod.path("/var/log/pods").join(&log).exists(), "its log stays");
    ensure!(std::fs::read_dir(pod.path("/var/lib/kube-gc"))?.count() == 1, "no ages are kept");
    collector.ready().await?;
    collector.stop().await
}

/// The API server knows none of the pods that run here.
async fn a_pod_under_a_wrong_node_name_is_not_ready_and_removes_nothing() -> Result<()> {
    use ContainerState::{ContainerExited, ContainerRunning};
    let node = Node::set_up().await?;
    node.let_it_remove().await?;
    for name in ["living-1", "living-2", "living-3"] {
        let pod = node.pod(name, "another-node").await?;
        node.on_node(pod.name, &pod.uid, &[ContainerRunning]);
    }
    let of_gone = node.on_node("gone", "0badc0de-0000-4000-8000-000000000000", &[ContainerExited]);
    let (_pod, collector) = node.start(|_| Ok(())).await?;
    let report = report(&collector).await?;
    ensure!(report["wrongNode"] == true, "{report}");
    let answer = collector.get("/readyz").await?;
    ensure!(answer.status != 200 && answer.body.contains(NODE_NAME), "{} {}", answer.status, answer.body);
    let entry = entry(&report, &of_gone[0])?;
    ensure!(entry["decision"] == "keep", "{entry}");
    ensure!(node.changes() == 0, "{} calls changed something", node.changes());
    collector.stop().await
}

/// Both rights for events are needed: the first failure creates one, and the next one increases its
/// count by a patch.
async fn what_cannot_be_removed_is_an_event_about_the_node() -> Result<()> {
    let node = Node::set_up().await?;
    node.let_it_remove().await?;
    let living = node.pod("living", NODE_NAME).await?;
    node.on_node(living.name, &living.uid, &[]);
    let failure = Effect::Fail(Code::Internal, "the file system is read-only".to_owned());
    node.runtime.fault(Fault::every(Rpc::RemoveContainer, failure));
    let gone = "0badc0de-0000-4000-8000-000000000000";
    node.on_node("gone", gone, &[ContainerState::ContainerExited]);
    let (_pod, collector) = node.start(|_| Ok(())).await?;
    let mut events = Value::Null;
    poll("an event that counts", async || {
        events = node.installation.get("/api/v1/namespaces/default/events").await?;
        let events = events["items"].as_array().context("no list")?;
        Ok(events.iter().any(|event| {
            event["reason"] == "ContainerGCFailed"
                && event["involvedObject"]["kind"] == "Node"
                && event["involvedObject"]["name"] == NODE_NAME
                && event["count"].as_u64() >= Some(2)
        }))
    })
    .await
    .with_context(|| events.to_string())?;
    ensure!(node.containers().len() == 1, "a container is gone: {:?}", node.containers());
    collector.stop().await
}
