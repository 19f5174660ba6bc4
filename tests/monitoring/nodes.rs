//! Nodes with their collector, `kube-gc node run`, on container runtimes inside this process.

use std::process::Command;

use anyhow::Result;
use kube_gc_cri::Rpc;
use kube_gc_cri::server::{Code, CriServer, Effect, Fault, NewImage, Settings, World};
use kube_gc_testkit::Collector;
use tempfile::TempDir;

use crate::prometheus::{NODES, Target};

/// The installation whose file system stays full, with a container that cannot be removed.
pub const FULL: &str = "full-node";
/// The installation whose container runtime lists nothing.
pub const DEAF: &str = "deaf-node";

/// The installation that has no fault.
pub const FINE: &str = "fine-node";

/// A node.
pub struct Node {
    name: &'static str,
    collector: Collector,
    _runtime: CriServer,
    _directory: TempDir,
}

impl Node {
    /// A node on which one container and one image can be removed, one container cannot, and nothing
    /// suffices.
    pub async fn full() -> Result<Self> {
        let mut world = World::default();
        world.add_image(image("unused"));
        let image = world.add_image(image("app"));
        // The newest one stays.
        let containers = world.add_crashed(&image, 3);
        let busy = Effect::Fail(Code::Unknown, "device busy".to_owned());
        let fault = Fault::about(Rpc::RemoveContainer, &containers[0], busy);
        // Something is on the file system, and with these thresholds that is too much.
        Self::start(FULL, world, "high = 1\nlow = 0", Some(fault)).await
    }

    /// A node whose container runtime fails to list containers.
    pub async fn deaf() -> Result<Self> {
        let failing = Effect::Fail(Code::Unavailable, "the database is locked".to_owned());
        let fault = Fault::every(Rpc::ListContainers, failing);
        Self::start(DEAF, World::default(), "", Some(fault)).await
    }

    /// A node with nothing to do.
    pub async fn fine() -> Result<Self> {
        Self::start(FINE, World::default(), "high = 100", None).await
    }

    async fn start(name: &'static str, world: World, thresholds: &str, fault: Option<Fault>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("kube-gc-node-").tempdir()?;
        let path = |name: &str| directory.path().join(name);
        for logs in ["pods", "containers"] {
            std::fs::create_dir(path(logs))?;
        }
        // A real file system.
        let mountpoint = directory.path().display().to_string();
        let runtime = CriServer::start(Settings { mountpoint, ..Settings::default() }, world)?;
        fault.into_iter().for_each(|fault| runtime.fault(fault));
        let config = format!(
            "[node]\npods = \"none\"\nbeside_kubelet = \"all\"\nruntime_endpoint = \"{}\"\nstate = {:?}\n{thresholds}\n\
             period = \"1s\"\n[node.images]\nperiod = \"1s\"\nmin_age = \"0s\"\n\
             [node.roots]\npods = {:?}\ncontainers = {:?}\n",
            runtime.endpoint(),
            path("state.json"),
            path("pods"),
            path("containers"),
        );
        std::fs::write(path("config.toml"), config)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-gc"));
        command.args(["node", "run", "--node", name, "--config"]).arg(path("config.toml"));
        command.args(["--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0", "--log-format", "json"]);
        command.env_remove("KUBERNETES_SERVICE_HOST");
        let collector = Collector::spawn(command, None).await?;
        Ok(Self { name, collector, _runtime: runtime, _directory: directory })
    }

    /// Its target in Prometheus.
    pub fn target(&self) -> Target {
        let address = self.collector.health_address().to_owned();
        Target { job: NODES, namespace: self.name, pod: self.name, address }
    }

    /// Ends it.
    pub async fn end(self) -> Result<()> {
        self.collector.stop().await
    }
}

fn image(name: &str) -> NewImage {
    NewImage {
        tags: vec![format!("registry.example/{name}:1")],
        digests: vec![format!("registry.example/{name}@sha256:{name}")],
        ..NewImage::default()
    }
}
