//! The node.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use kube_gc_cri::ApiVersion;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{CriServer, Layer, NewContainer, NewImage, NewSandbox, Settings, World};
use tempfile::TempDir;

pub const PODS: u32 = 100;
pub const CONTAINERS: u32 = 500;
pub const IMAGES: u32 = 1000;
/// How many containers may go where a container of each pod has crashed again and again: all but the
/// one that runs and the newest dead one.
pub const DEAD: usize = 300;

/// How many images go: as many as kube-gc removes in one pass.
pub const OLD: u32 = 50;
/// The size of an image.
pub const IMAGE_BYTES: u64 = 100 << 20;

/// The runtime, and the directory above the logs.
pub struct Host {
    pub runtime: Arc<CriServer>,
    pub root: TempDir,
}

/// What there is.
#[derive(Clone, Copy)]
pub enum Node {
    /// Nothing may go.
    Idle,
    /// Containers have crashed.
    Crashed,
    /// Nothing may go, of twice as many images and 1,800 containers.
    Large,
}

impl Host {
    pub fn start() -> Result<Self> {
        let root = tempfile::Builder::new().prefix("kube-gc-bench-node-").tempdir()?;
        for logs in ["var/log/pods", "var/log/containers"] {
            std::fs::create_dir_all(root.path().join(logs))?;
        }
        // The kubelet 1.20.2 speaks nothing newer than v1alpha2.
        let versions = vec![ApiVersion::V1, ApiVersion::V1Alpha2];
        // A file system that can be measured.
        let mountpoint = root.path().display().to_string();
        let settings = Settings { versions, mountpoint, ..Settings::default() };
        let runtime = CriServer::start(settings, World::default())?;
        Ok(Self { runtime: Arc::new(runtime), root })
    }

    pub fn logs(&self, name: &str) -> PathBuf {
        self.root.path().join("var/log").join(name)
    }

    /// The uids of the pods.
    pub fn pods() -> Vec<String> {
        (0..PODS).map(uid).collect()
    }

    /// Makes the node as it is at the beginning of a turn.
    pub fn reset(&self, node: Node) {
        let world = self.world(node);
        self.runtime.world(|now| *now = world);
        self.runtime.clear_journal();
    }

    pub fn containers(&self) -> usize {
        self.runtime.world(|world| world.containers().count())
    }

    pub fn images(&self) -> usize {
        self.runtime.world(|world| world.images().count())
    }

    /// The ids of the images, those first that no container uses.
    pub fn image_ids(&self) -> Vec<String> {
        self.runtime.world(|world| {
            let used: HashSet<&str> = world.containers().map(|container| &*container.image_ref).collect();
            let (mut unused, rest): (Vec<String>, Vec<String>) =
                world.images().map(|image| image.id.clone()).partition(|id| !used.contains(&**id));
            unused.extend(rest);
            unused
        })
    }

    pub fn calls(&self) -> usize {
        self.runtime.journal().len()
    }

    fn world(&self, node: Node) -> World {
        let mut world = World::new(1 << 40);
        let (images, each) = match node {
            Node::Idle | Node::Crashed => (IMAGES, CONTAINERS / PODS),
            Node::Large => (2 * IMAGES, 18),
        };
        let images: Vec<String> = (0..images)
            .map(|number| {
                world.add_image(NewImage {
                    tags: vec![format!("registry.example.com/app-{number}:1")],
                    digests: vec![format!("registry.example.com/app-{number}@sha256:{number:064x}")],
                    layers: vec![Layer { digest: number.to_string(), bytes: IMAGE_BYTES }],
                    ..NewImage::default()
                })
            })
            .collect();
        for pod in 0..PODS {
            let sandbox = world.add_sandbox(NewSandbox::of("default", &format!("pod-{pod}"), &uid(pod)));
            for attempt in 0..each {
                let runs = attempt == each - 1;
                let name = match node {
                    Node::Idle | Node::Large => format!("app-{attempt}"),
                    Node::Crashed => "app".to_owned(),
                };
                let logs = self.logs("pods");
                world.add_container(NewContainer {
                    sandbox: sandbox.clone(),
                    log_path: format!(
                        "{}/default_pod-{pod}_{}/{name}/{attempt}.log",
                        logs.display(),
                        uid(pod)
                    ),
                    name,
                    attempt,
                    image: images[usize::try_from(pod).unwrap_or_default() % images.len()].clone(),
                    state: match runs {
                        true => ContainerState::ContainerRunning,
                        false => ContainerState::ContainerExited,
                    },
                    created_at: 1 + i64::from(attempt),
                    ..NewContainer::default()
                });
            }
        }
        world
    }
}

fn uid(pod: u32) -> String {
    format!("{pod:08x}-0000-4000-8000-000000000000")
}
