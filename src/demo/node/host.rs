//! The node of the demo: a container runtime and an API server inside the process, a directory of
//! logs, and the collector on them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use kube_gc_apiserver::ApiServer;
use kube_gc_cri::messages::{ContainerState, PodSandboxMetadata};
use kube_gc_cri::server::{
    CriServer, Disk, Layer, NewContainer, NewImage, NewSandbox, Settings, Space, World,
};
use kube_gc_node::ledger::Record;
use kube_gc_node::pass::Scope;
use kube_gc_node::rules::{BesideKubelet, Glob};
use kube_gc_node::{Ledger, Rules, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::demo::cluster::User;
use crate::node::{
    self, Disk as _, Look, NodeCollector, NodeOptions, PassResult, PodSource, Presence, StateFile,
};
use kube_gc_client::{Api, ApiSettings, WriteGate};

/// A gibibyte.
pub const GIB: u64 = 1 << 30;
/// The namespace of the pods.
const NAMESPACE: &str = "shop";
/// The node.
const NODE: &str = "demo-node";
/// The container of each pod.
const CONTAINER: &str = "app";
/// The size of the disk, and what is on it apart from images and containers.
const DISK: u64 = 100 * GIB;
pub const OTHER: u64 = 20 * GIB;
/// What `keep` names.
const KEEP: &str = "registry.example.com/base/*";
/// The image that is unused until something starts it in the second scenario.
pub const LATE: &str = "registry.example.com/shop/checkout:1";

/// An image.
pub struct Image {
    pub name: &'static str,
    gib: u64,
    /// Whether a registry has it under a digest.
    pub from_registry: bool,
    pub pinned: bool,
    /// How many hours ago it was detected, and last used if ever.
    pub detected: u32,
    used: Option<u32>,
}

const fn image(name: &'static str, gib: u64, detected: u32) -> Image {
    Image { name, gib, from_registry: true, pinned: false, detected, used: None }
}

/// The images.
pub const IMAGES: [Image; 11] = [
    image(WEB, 4, 72),
    image(OLD_WEB, 6, 400),
    image(IMPORTER, 8, 300),
    Image { used: Some(20), ..image(LATE, 10, 500) },
    image("registry.example.com/shop/cart:7", 6, 1),
    Image { used: Some(700), ..image("registry.example.com/shop/report:1", 7, 900) },
    Image { used: Some(90), ..image("registry.example.com/shop/search:4", 8, 800) },
    Image { used: Some(900), ..image("registry.example.com/base/tools:1", 9, 950) },
    Image { from_registry: false, ..image("localhost/debug:dev", 6, 600) },
    image("registry.example.com/shop/new:1", 3, 0),
    Image { pinned: true, ..image("registry.k8s.io/pause:3.10", 1, 1000) },
];

/// A pod, and what is left of it on the node.
struct Pod {
    name: &'static str,
    /// `status.phase`; `None` if the API server does not have it.
    phase: Option<&'static str>,
    /// Whether its sandbox has stopped; `None` if it has none yet.
    is_stopped: Option<bool>,
    containers: &'static [Container],
    /// The image that its spec names.
    image: &'static str,
}

/// A container of a pod.
struct Container {
    image: &'static str,
    state: ContainerState,
    /// How many hours ago it was created.
    created: u32,
    /// How many gibibytes it has written.
    written: u64,
}

const fn exited(image: &'static str, created: u32, written: u64) -> Container {
    Container { image, state: ContainerState::ContainerExited, created, written }
}

const RUNNING: Container =
    Container { image: WEB, state: ContainerState::ContainerRunning, created: 70, written: 1 };

/// A pod by its name, its phase, whether its sandbox has stopped, the image of its spec, and its containers in
/// the order of their creation.
const fn pod(
    name: &'static str,
    phase: Option<&'static str>,
    is_stopped: Option<bool>,
    image: &'static str,
    containers: &'static [Container],
) -> Pod {
    Pod { name, phase, is_stopped, containers, image }
}

const WEB: &str = "registry.example.com/shop/web:3";
const OLD_WEB: &str = "registry.example.com/shop/web:2";
const IMPORTER: &str = "registry.example.com/shop/importer:1";

/// The pods.
const PODS: [Pod; 4] = [
    pod(
        "web",
        Some("Running"),
        Some(false),
        WEB,
        &[exited(OLD_WEB, 90, 1), exited(OLD_WEB, 80, 1), exited(OLD_WEB, 75, 0), RUNNING],
    ),
    pod("importer", Some("Succeeded"), Some(true), IMPORTER, &[exited(IMPORTER, 48, 0)]),
    // Its node was cut off when it was deleted.
    pod("checkout-old", None, Some(true), LATE, &[exited(LATE, 200, 0)]),
    // Bound to this node a moment ago: its image is there, its container is not.
    pod("cart", Some("Pending"), None, "registry.example.com/shop/cart:7", &[]),
];

/// The node.
pub struct Host {
    pub runtime: Arc<CriServer>,
    collector: NodeCollector,
    logs: Logs,
    /// The ids of images by their names.
    pub images: BTreeMap<&'static str, String>,
}

/// The directory of logs, removed with this value.
struct Logs(PathBuf);

impl Logs {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("kube-gc-demo-{}.logs", std::process::id()));
        let made =
            ["pods", "containers"].iter().try_for_each(|name| std::fs::create_dir_all(path.join(name)));
        made.map_err(|error| format!("cannot make the directory {}: {error}", path.display()))?;
        Ok(Self(path))
    }

    fn root(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// The log of a container; makes its directory.
    fn log(&self, pod: &Pod, uid: &str, attempt: u32) -> Result<String, String> {
        let directory = format!("pods/{NAMESPACE}_{}_{uid}/{CONTAINER}", pod.name);
        let path = self.0.join(directory);
        let log = path.join(format!("{attempt}.log"));
        let made = std::fs::create_dir_all(path).and_then(|()| std::fs::write(&log, "a line\n"));
        made.map_err(|error| format!("cannot write the log {}: {error}", log.display()))?;
        Ok(log.display().to_string())
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        // What cannot be removed is a few bytes in the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Host {
    /// Starts the runtime and the API server, and fills both.
    pub async fn set_up() -> Result<Self, String> {
        let now = node::now();
        let settings = kube_gc_apiserver::Settings { epoch: SystemTime::now(), ..Default::default() };
        let server = ApiServer::new(settings);
        let uids = create_pods(&User(server.client())).await?;
        let logs = Logs::new()?;
        let mut world = World::new(Disk::new(DISK, 10_000_000));
        world.disk.other = Space { bytes: OTHER, inodes: 0 };
        let mut ledger = Ledger::default();
        let images = add_images(&mut world, &mut ledger, now);
        for pod in &PODS {
            let uid = uids.get(pod.name).ok_or("a pod has no uid")?;
            add_pod(&mut world, pod, uid, &images, &logs, now)?;
        }
        let runtime = CriServer::start(Settings::default(), world);
        let runtime = Arc::new(runtime.map_err(|error| format!("the container runtime: {error}"))?);

        let mut rules = Rules::default();
        rules.images.keep.extend(Glob::parse(KEEP));
        rules.roots.pods = logs.root("pods");
        rules.roots.containers = logs.root("containers");
        // The logs were written a moment ago.
        rules.created_grace = Duration::ZERO;
        let options = NodeOptions {
            rules,
            endpoint: runtime.endpoint().clone(),
            name: NODE.to_owned(),
            state: StateFile::new(logs.0.join("state.json")),
            kubelet: Presence::Absent,
            beside: BesideKubelet::Nothing,
            detect: || Presence::Absent,
            in_pod: false,
        };
        let api = Api::from_clients(server.client(), ApiSettings::default(), WriteGate::dry_run());
        let pods = PodSource::Api { api, node: NODE.to_owned() };
        let collector = NodeCollector::connect(&options, kube_gc_cri::Settings::default(), pods, ledger)
            .await
            .map_err(|error| error.to_string())?
            .with_disk(Arc::<CriServer>::clone(&runtime));
        Ok(Self { runtime, collector, logs, images })
    }

    /// What there is on the node, for the JSON output.
    pub fn overview(&self) -> Value {
        let usage = self.runtime.disk_usage();
        let images = &self.collector.rules().images;
        let (containers, sandboxes) =
            self.runtime.world(|world| (world.containers().count(), world.sandboxes().count()));
        json!({
            "capacityBytes": usage.capacity,
            "usedBytes": usage.capacity.saturating_sub(usage.available),
            "percent": self.percent(),
            "pods": PODS.iter().filter(|pod| pod.phase.is_some()).count(),
            "containers": containers,
            "sandboxes": sandboxes,
            "images": IMAGES.len(),
            "high": images.high,
            "low": images.low,
        })
    }

    /// How full the disk is.
    pub fn percent(&self) -> u8 {
        let usage = self.runtime.usage();
        usage.ok().and_then(|usage| usage.percent()).unwrap_or_default()
    }

    /// The ids of the containers that run.
    pub fn running(&self) -> Vec<String> {
        self.runtime.world(|world| {
            let runs =
                world.containers().filter(|container| container.state() == ContainerState::ContainerRunning);
            runs.map(|container| container.id.clone()).collect()
        })
    }

    /// Whether the runtime still has an image.
    pub fn has_image(&self, name: &str) -> bool {
        let id = self.images.get(name);
        id.is_some_and(|id| self.runtime.world(|world| world.images().any(|image| image.id == *id)))
    }

    /// Whether a pod still has a log directory.
    pub fn has_logs(&self, pod: &str) -> bool {
        let entries = std::fs::read_dir(self.logs.0.join("pods")).into_iter().flatten().flatten();
        let prefix = format!("{NAMESPACE}_{pod}_");
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
    }

    /// Plans.
    pub async fn look(&mut self) -> Result<Look, String> {
        let look = self.collector.look(node::now()).await.map_err(|error| error.to_string())?;
        look.notes.first().map_or_else(|| Ok(()), |note| Err(note.clone()))?;
        Ok(look)
    }

    /// Carries out a plan. Returns what came of it, and the milliseconds that it took.
    pub async fn carry_out(&mut self, look: &Look) -> Result<(PassResult, f64), String> {
        let carried = self.collector.carry_out(look, Scope::All, &CancellationToken::new()).await;
        let carried = carried.map_err(|error| error.to_string())?;
        Ok((PassResult::new(&carried), carried.took.as_secs_f64() * 1000.0))
    }
}

/// Creates the pods that the API server has, and returns the uids of all.
async fn create_pods(user: &User) -> Result<BTreeMap<&'static str, String>, String> {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    user.send_ok(Method::POST, "/api/v1/namespaces", Some(&namespace)).await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let mut uids = BTreeMap::new();
    for pod in &PODS {
        let body = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": pod.name, "namespace": NAMESPACE },
            "spec": { "nodeName": NODE, "containers": [{ "name": "app", "image": pod.image }] },
        });
        let created = user.send_ok(Method::POST, &path, Some(&body)).await?.body;
        let uid = created["metadata"]["uid"].as_str().ok_or("a pod has no uid")?.to_owned();
        uids.insert(pod.name, uid);
        let object = format!("{path}/{}", pod.name);
        match pod.phase {
            Some(phase) => {
                let status = json!({ "status": status(phase) });
                user.send_ok(Method::PATCH, &format!("{object}/status"), Some(&status)).await?;
            }
            // It is gone from the API server, and not from the node.
            None => _ = user.send_ok(Method::DELETE, &format!("{object}?gracePeriodSeconds=0"), None).await?,
        }
    }
    Ok(uids)
}

fn status(phase: &str) -> Value {
    let state = match phase {
        "Running" => json!({ "running": {} }),
        "Pending" => json!({ "waiting": {} }),
        _ => json!({ "terminated": { "exitCode": 0 } }),
    };
    json!({ "phase": phase, "containerStatuses": [{ "name": "app", "state": state }] })
}

fn ago(now: Timestamp, hours: u32) -> Timestamp {
    now.minus(Duration::from_secs(3600) * hours)
}

fn add_images(world: &mut World, ledger: &mut Ledger, now: Timestamp) -> BTreeMap<&'static str, String> {
    let mut ids = BTreeMap::new();
    for (number, image) in (1_u64..).zip(&IMAGES) {
        let repository = image.name.rsplit_once(':').map_or(image.name, |(repository, _)| repository);
        let digest = format!("{repository}@sha256:{number:064x}");
        let id = world.add_image(NewImage {
            tags: vec![image.name.to_owned()],
            digests: image.from_registry.then_some(digest).into_iter().collect(),
            layers: vec![Layer { digest: image.name.to_owned(), bytes: image.gib * GIB, inodes: 1000 }],
            pinned: image.pinned,
            handler: String::new(),
        });
        let first_detected = ago(now, image.detected);
        let last_used = image.used.map(|hours| ago(now, hours));
        ledger.set(&id, Record { first_detected, last_used });
        ids.insert(image.name, id);
    }
    ids
}

fn add_pod(
    world: &mut World,
    pod: &Pod,
    uid: &str,
    images: &BTreeMap<&'static str, String>,
    logs: &Logs,
    now: Timestamp,
) -> Result<(), String> {
    let Some(stopped) = pod.is_stopped else { return Ok(()) };
    let metadata = PodSandboxMetadata {
        name: pod.name.to_owned(),
        uid: uid.to_owned(),
        namespace: NAMESPACE.to_owned(),
        attempt: 0,
    };
    let created = pod.containers.first().map_or(0, |container| container.created);
    let sandbox = world.add_sandbox(NewSandbox {
        pod: metadata,
        stopped,
        created_at: ago(now, created).nanos(),
        ..NewSandbox::default()
    });
    for (attempt, container) in (0..).zip(pod.containers) {
        world.add_container(NewContainer {
            sandbox: sandbox.clone(),
            name: CONTAINER.to_owned(),
            attempt,
            image: images.get(container.image).cloned().unwrap_or_default(),
            state: container.state,
            created_at: ago(now, container.created).nanos(),
            image_volumes: Vec::new(),
            log_path: logs.log(pod, uid, attempt)?,
            written: Space { bytes: container.written * GIB, inodes: 10 },
        });
    }
    Ok(())
}
