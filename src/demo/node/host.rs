//! The node of the demo: a container runtime and an API server inside the process, a directory of
//! logs, and the collector on them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use kube_gc_apiserver::ApiServer;
use kube_gc_cri::Client;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{CriServer, Layer, NewContainer, NewImage, NewSandbox, Settings, World};
use kube_gc_node::ledger::Age;
use kube_gc_node::pass::Scope;
use kube_gc_node::{Ledger, Rules, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wildmatch::WildMatch;

use crate::demo::cluster::User;
use crate::node::{self, Disk as _, Look, NodeCollector, PassResult, PodSource, Report};
use kube_gc_client::{Api, ApiSettings, WriteGate};
use kube_gc_observe::telemetry;

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
    /// The directory of the pods' logs, which is removed with the runtime.
    logs: PathBuf,
    /// The ids of images by their names.
    pub images: BTreeMap<&'static str, String>,
}

impl Host {
    /// Starts the runtime and the API server, and fills both.
    pub async fn set_up() -> Result<Self, String> {
        let now = node::now().wall;
        let settings = kube_gc_apiserver::Settings { epoch: SystemTime::now(), ..Default::default() };
        let server = ApiServer::new(settings);
        let mut world = World::new(DISK);
        world.other = OTHER;
        let mut ledger = Ledger::default();
        let images = add_images(&mut world, &mut ledger);
        let runtime = CriServer::start(Settings::default(), world);
        let runtime = Arc::new(runtime.map_err(|error| format!("the container runtime: {error}"))?);
        let beside = |name: &str| runtime.endpoint().path().with_file_name(name);
        let (logs, symlinks) = (beside("pods"), beside("containers"));
        for directory in [&logs, &symlinks] {
            fs::create_dir(directory)
                .map_err(|error| format!("cannot make the directory {}: {error}", directory.display()))?;
        }
        let user = User(server.client());
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        user.send_ok(Method::POST, "/api/v1/namespaces", Some(&namespace)).await?;
        for pod in &PODS {
            let uid = create_pod(&user, pod).await?;
            runtime.world(|world| add_pod(world, pod, &uid, &images, &logs, now))?;
        }

        let mut rules = Rules::default();
        rules.images.keep.push(WildMatch::new(KEEP));
        rules.roots.pods = logs.display().to_string();
        rules.roots.containers = symlinks.display().to_string();
        // The logs were written a moment ago.
        rules.created_grace = Duration::ZERO;
        let api = Api::from_clients(server.client(), ApiSettings::default(), WriteGate::dry_run());
        let client = Client::connect(runtime.endpoint(), kube_gc_cri::Settings::default()).await;
        let client = client.map_err(|error| error.to_string())?;
        let pods = Some(PodSource::new(api, NODE));
        let collector = NodeCollector::new(client, rules, false, pods, ledger);
        let collector = collector.with_disk(Arc::<CriServer>::clone(&runtime));
        Ok(Self { runtime, collector, logs, images })
    }

    /// What there is on the node, for the JSON output.
    pub fn overview(&self) -> Value {
        let images = &self.collector.rules().images;
        let (containers, sandboxes) =
            self.runtime.world(|world| (world.containers().count(), world.sandboxes().count()));
        json!({
            "capacityBytes": DISK,
            "usedBytes": DISK.saturating_sub(self.runtime.available()),
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
        let mut entries = fs::read_dir(&self.logs).into_iter().flatten().flatten();
        let prefix = format!("{NAMESPACE}_{pod}_");
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
    }

    /// What `kube-gc node` says of a plan.
    pub fn report(&self, look: &Look) -> Report {
        Report {
            version: 2,
            node: NODE.to_owned(),
            runtime: self.collector.runtime(),
            endpoint: self.runtime.endpoint().to_string(),
            time: telemetry::Timestamp::now().to_string(),
            dry_run: None,
            notes: look.notes.clone(),
            plan: Arc::clone(&look.plan),
            result: None,
            asked: String::new(),
        }
    }

    /// Plans.
    pub async fn look(&mut self) -> Result<Look, String> {
        let look = self.collector.look(node::now()).await.map_err(|error| error.to_string())?;
        look.notes.first().map_or_else(|| Ok(()), |note| Err(note.text.clone()))?;
        Ok(look)
    }

    /// Carries out a plan.
    pub async fn carry_out(&mut self, look: &Look) -> Result<PassResult, String> {
        let carried = self.collector.carry_out(look, Scope::All, &CancellationToken::new()).await;
        carried.map_err(|error| error.to_string())
    }
}

/// Creates a pod, and deletes it if the API server is not to have it. Returns its uid.
async fn create_pod(user: &User, pod: &Pod) -> Result<String, String> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let body = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": pod.name, "namespace": NAMESPACE },
        "spec": { "nodeName": NODE, "containers": [{ "name": "app", "image": pod.image }] },
    });
    let created = user.send_ok(Method::POST, &path, Some(&body)).await?.body;
    let object = format!("{path}/{}", pod.name);
    match pod.phase {
        Some(phase) => {
            let status = json!({ "status": status(phase) });
            user.send_ok(Method::PATCH, &format!("{object}/status"), Some(&status)).await?;
        }
        // It is gone from the API server, and not from the node.
        None => _ = user.send_ok(Method::DELETE, &format!("{object}?gracePeriodSeconds=0"), None).await?,
    }
    Ok(created["metadata"]["uid"].as_str().ok_or("a pod has no uid")?.to_owned())
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

fn add_images(world: &mut World, ledger: &mut Ledger) -> BTreeMap<&'static str, String> {
    let mut ids = BTreeMap::new();
    for (number, image) in (1_u64..).zip(&IMAGES) {
        let repository = image.name.rsplit_once(':').map_or(image.name, |(repository, _)| repository);
        let digest = format!("{repository}@sha256:{number:064x}");
        let id = world.add_image(NewImage {
            tags: vec![image.name.to_owned()],
            digests: image.from_registry.then_some(digest).into_iter().collect(),
            layers: vec![Layer { digest: image.name.to_owned(), bytes: image.gib * GIB }],
            pinned: image.pinned,
            ..NewImage::default()
        });
        let ago = |hours: u32| Duration::from_secs(3600) * hours;
        ledger.set(&id, Age { detected: ago(image.detected), used: image.used.map(ago) });
        ids.insert(image.name, id);
    }
    ids
}

/// What is left of a pod on the node: its sandbox, and its containers with their logs.
fn add_pod(
    world: &mut World,
    pod: &Pod,
    uid: &str,
    images: &BTreeMap<&'static str, String>,
    logs: &Path,
    now: Timestamp,
) -> Result<(), String> {
    let Some(stopped) = pod.is_stopped else { return Ok(()) };
    let created_at = ago(now, pod.containers.first().map_or(0, |container| container.created)).nanos();
    let sandbox = NewSandbox { stopped, created_at, ..NewSandbox::of(NAMESPACE, pod.name, uid) };
    let sandbox = world.add_sandbox(sandbox);
    let directory = logs.join(format!("{NAMESPACE}_{}_{uid}/{CONTAINER}", pod.name));
    for (attempt, container) in (0..).zip(pod.containers) {
        let log = directory.join(format!("{attempt}.log"));
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(&log, "a line\n"))
            .map_err(|error| format!("cannot write the log {}: {error}", log.display()))?;
        world.add_container(NewContainer {
            sandbox: sandbox.clone(),
            name: CONTAINER.to_owned(),
            attempt,
            image: images.get(container.image).cloned().unwrap_or_default(),
            state: container.state,
            created_at: ago(now, container.created).nanos(),
            log_path: log.display().to_string(),
            written: container.written * GIB,
            ..NewContainer::default()
        });
    }
    Ok(())
}
