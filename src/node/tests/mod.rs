//! Whole passes on a container runtime that injects faults and on an embedded API server.

mod actor;
mod better;
mod faults;
mod labels;
mod passes;
mod safety;
mod schema;
mod watch;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube_gc_apiserver::ApiServer;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{self, CriServer, Layer, NewContainer, NewImage, NewSandbox, World};
use kube_gc_cri::{ApiVersion, Client, Rpc, client};
use kube_gc_node::ledger::Age;
use kube_gc_node::pass::{AT_A_TIME, Outcome, Scope};
use kube_gc_node::plan::What;
use kube_gc_node::rules::{Effects, LogRoots};
use kube_gc_node::{Ledger, Rules};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::files::Logs;
use super::{Disk, Look, NodeCollector, NodeOptions, Note, PassResult, PodSource, Report, StateFile, now};
use kube_gc_client::{Api, ApiSettings, WriteGate};

const NODE: &str = "node-1";
const HOUR: Duration = Duration::from_secs(3600);
const MIB: u64 = 1 << 20;

/// A node: a runtime, logs, and an API server that knows some of its pods.
struct Node {
    server: Arc<CriServer>,
    api: ApiServer,
    directory: tempfile::TempDir,
    rules: Rules,
    ledger: Ledger,
    knows_pods: bool,
    deadline: Duration,
    /// The image that most containers use.
    image: String,
    pods: usize,
}

/// A pod on the node.
#[derive(Clone, Debug)]
struct OnNode {
    name: String,
    uid: String,
    sandbox: String,
}

fn nanos(ago: Duration) -> i64 {
    now().wall.minus(ago).nanos()
}

impl Node {
    /// A node with a disk of a thousand MiB and one image in use.
    fn set_up() -> Self {
        Self::with(server::Settings::default())
    }

    fn with(settings: server::Settings) -> Self {
        let mut world = World::new(1000 * MIB);
        let image = world.add_image(image("base", 1));
        let server = Arc::new(CriServer::start(settings, world).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let roots = LogRoots { pods: at("pods"), containers: at("containers") };
        fs::create_dir(&roots.pods).unwrap();
        fs::create_dir(&roots.containers).unwrap();
        let mut rules = Rules { roots, ..Rules::default() };
        rules.images.min_age = Duration::ZERO;
        rules.created_grace = Duration::ZERO;
        let api = ApiServer::new(kube_gc_apiserver::Settings::default());
        Self {
            server,
            api,
            directory,
            rules,
            ledger: Ledger::default(),
            knows_pods: true,
            deadline: Duration::from_secs(30),
            image,
            pods: 0,
        }
    }

    /// A pod that the API server has and that runs here.
    async fn pod(&mut self) -> OnNode {
        self.pod_with(json!([])).await
    }

    /// The same with an image as a volume.
    async fn pod_that_mounts(&mut self, reference: &str) -> OnNode {
        self.pod_with(json!([{ "name": "v", "image": { "reference": reference } }])).await
    }

    async fn pod_with(&mut self, volumes: serde_json::Value) -> OnNode {
        let name = format!("pod-{}", self.pods);
        let pods: kube::Api<Pod> = kube::Api::namespaced(self.api.client(), "default");
        let pod = json!({
            "metadata": { "name": name },
            "spec": { "nodeName": NODE, "containers": [{ "name": "web", "image": "base:1" }], "volumes": volumes },
        });
        let pod = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let status = json!({ "status": { "phase": "Running" } });
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let uid = pod.metadata.uid.unwrap();
        self.sandbox(&uid, false)
    }

    /// A pod that only this node has.
    fn gone_pod(&mut self) -> OnNode {
        let uid = format!("{:08x}-0000-4000-8000-000000000000", self.pods);
        self.sandbox(&uid, true)
    }

    fn sandbox(&mut self, uid: &str, stopped: bool) -> OnNode {
        let name = format!("pod-{}", self.pods);
        self.pods += 1;
        let annotations = [("kubernetes.io/config.source".to_owned(), "api".to_owned())].into();
        let created_at = nanos(HOUR);
        let new = NewSandbox { stopped, created_at, annotations, ..NewSandbox::of("default", &name, uid) };
        let sandbox = self.server.world(|world| world.add_sandbox(new));
        OnNode { name, uid: uid.to_owned(), sandbox }
    }

    /// A container of a pod, of so many attempts: the last one in this state, those before exited.
    fn containers(&self, pod: &OnNode, attempts: u32, last: ContainerState) -> Vec<String> {
        let state = |attempt| if attempt + 1 == attempts { last } else { ContainerState::ContainerExited };
        (0..attempts).map(|attempt| self.container(pod, attempt, state(attempt), &self.image)).collect()
    }

    /// A container with a log and a symlink to it.
    fn container(&self, pod: &OnNode, attempt: u32, state: ContainerState, image: &str) -> String {
        let log_path = format!("{}/web/{attempt}.log", self.log_directory(pod));
        fs::create_dir_all(format!("{}/web", self.log_directory(pod))).unwrap();
        fs::write(&log_path, "log\n").unwrap();
        let new = NewContainer {
            image: image.to_owned(),
            log_path: log_path.clone(),
            ..self.new_container(pod, state)
        };
        let new = NewContainer { attempt, created_at: new.created_at + i64::from(attempt), ..new };
        let id = self.server.world(|world| world.add_container(new));
        let link = format!("{}/{}_default_web-{id}.log", self.rules.roots.containers, pod.name);
        std::os::unix::fs::symlink(log_path, link).unwrap();
        id
    }

    /// A container of a pod to add, without a log.
    fn new_container(&self, pod: &OnNode, state: ContainerState) -> NewContainer {
        NewContainer {
            sandbox: pod.sandbox.clone(),
            name: "web".to_owned(),
            image: self.image.clone(),
            state,
            created_at: nanos(HOUR),
            ..NewContainer::default()
        }
    }

    /// From now on, the runtime mounts images.
    fn upgrade(&self) {
        self.server.upgrade(|settings| settings.versions = vec![ApiVersion::V1]);
    }

    fn log_directory(&self, pod: &OnNode) -> String {
        format!("{}/default_{}_{}", self.rules.roots.pods, pod.name, pod.uid)
    }

    /// So many unused images of this size, the oldest first.
    fn images(&mut self, count: u64, mib: u64) -> Vec<String> {
        (0..count).map(|number| self.add_image(image(&format!("i{number:03}"), mib))).collect()
    }

    /// An image that has been here for an hour, less what was added before.
    fn add_image(&mut self, new: NewImage) -> String {
        let id = self.server.world(|world| world.add_image(new));
        let age = HOUR - Duration::from_secs(u64::try_from(self.ledger.len()).unwrap());
        self.ledger.set(&id, Age { detected: age, used: None });
        id
    }

    fn pod_source(&self) -> Option<PodSource> {
        self.knows_pods.then(|| source(self.api.client()))
    }

    fn options(&self) -> NodeOptions {
        NodeOptions {
            rules: self.rules.clone(),
            endpoint: self.server.endpoint().clone(),
            name: NODE.to_owned(),
            state: StateFile::new(&self.directory.path().join("state.json"), self.server.endpoint().path()),
            kubelet: None,
            beside: Effects::Nothing,
            detect: || None,
            in_pod: false,
        }
    }

    async fn collector(&self) -> NodeCollector {
        self.collector_with(self.pod_source()).await
    }

    /// A collector with another source of pods.
    async fn collector_with(&self, pods: Option<PodSource>) -> NodeCollector {
        let settings = client::Settings { deadline: self.deadline, ..client::Settings::default() };
        let client = Client::connect(self.server.endpoint(), settings).await.unwrap();
        let collector = NodeCollector::new(client, self.rules.clone(), false, pods, self.ledger.clone());
        let disk: Arc<dyn Disk> = Arc::<CriServer>::clone(&self.server);
        collector.with_disk(disk).with_state(self.options().state)
    }

    /// One look.
    async fn look(&self) -> Look {
        self.collector().await.look(now()).await.unwrap()
    }

    /// One whole pass.
    async fn pass(&self) -> (Look, PassResult) {
        let mut collector = self.collector().await;
        let look = collector.look(now()).await.unwrap();
        assert_eq!(look.violations, [""; 0]);
        let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
        (look, carried)
    }

    fn container_ids(&self) -> BTreeSet<String> {
        self.server.world(|world| world.containers().map(|container| container.id.clone()).collect())
    }

    fn image_ids(&self) -> BTreeSet<String> {
        self.server.world(|world| world.images().map(|image| image.id.clone()).collect())
    }

    fn sandbox_ids(&self) -> BTreeSet<String> {
        self.server.world(|world| world.sandboxes().map(|sandbox| sandbox.id.clone()).collect())
    }

    /// What calls that change something were about.
    fn changes(&self) -> Vec<(Rpc, String)> {
        let changes = [
            Rpc::StopContainer,
            Rpc::RemoveContainer,
            Rpc::StopPodSandbox,
            Rpc::RemovePodSandbox,
            Rpc::RemoveImage,
        ];
        let journal = self.server.journal().into_iter();
        journal.filter(|entry| changes.contains(&entry.rpc)).map(|entry| (entry.rpc, entry.about)).collect()
    }

    fn logs(&self) -> Logs {
        Logs::new(self.rules.roots.clone(), false)
    }
}

/// A client that gets 403 for some paths with queries.
fn refusing(client: &kube::Client, what: impl Fn(&str) -> bool + Clone + Send + 'static) -> kube::Client {
    let client = client.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, is_refused) = (client.clone(), what(&request.uri().to_string()));
        async move {
            if !is_refused {
                return client.send(request).await;
            }
            let status =
                json!({ "kind": "Status", "status": "Failure", "code": 403, "message": "no relationship" });
            let response = http::Response::builder().status(403).header("content-type", "application/json");
            Ok(response.body(status.to_string().into_bytes().into()).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

/// What this API server says of pods.
fn source(client: kube::Client) -> PodSource {
    PodSource::new(Api::from_clients(client, ApiSettings::default(), WriteGate::open()), NODE)
}

/// An image that can be pulled again, with one layer of its own.
fn image(name: &str, mib: u64) -> NewImage {
    NewImage {
        tags: vec![format!("registry.example/{name}:1")],
        digests: vec![format!("registry.example/{name}@sha256:{name}")],
        layers: vec![Layer { digest: name.to_owned(), bytes: mib * MIB }],
        ..NewImage::default()
    }
}

/// Whether `once` exits with 0 then.
fn is_complete(look: &Look, carried: &PassResult) -> bool {
    Report::new(&Node::set_up().options(), String::new(), look).with(carried.clone()).is_complete()
}

/// What has gone, in order.
fn removed(carried: &PassResult) -> Vec<(What, String)> {
    let gone = carried.items.iter().filter(|record| record.outcome == Outcome::Removed);
    gone.map(|record| (record.candidate.what(), record.candidate.id().to_owned())).collect()
}

/// What a plan removes, in order.
fn planned(look: &Look) -> Vec<(What, String)> {
    look.plan.removals.iter().map(|candidate| (candidate.what(), candidate.id().to_owned())).collect()
}

fn set(ids: &[String]) -> BTreeSet<String> {
    ids.iter().cloned().collect()
}

/// Which rule keeps or removes an item.
fn rule(look: &Look, what: What, id: &str) -> String {
    look.plan.entry(what, id).unwrap_or_else(|| panic!("no {what:?} {id}")).rule.to_string()
}
