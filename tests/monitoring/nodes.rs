//! A node with its collector, `kube-gc node run`, on a container runtime inside this process.

use std::process::Command;

use anyhow::Result;
use kube_gc_cri::Rpc;
use kube_gc_cri::server::{Code, CriServer, Effect, Fault, NewImage, Settings, World};
use kube_gc_testkit::Collector;
use tempfile::TempDir;

/// A node.
pub struct Node {
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
        let directory = tempfile::Builder::new().prefix("kube-gc-node-").tempdir()?;
        let path = |name: &str| directory.path().join(name);
        for logs in ["pods", "containers"] {
            std::fs::create_dir(path(logs))?;
        }
        // A real file system.
        let mountpoint = directory.path().display().to_string();
        let runtime = CriServer::start(Settings { mountpoint, ..Settings::default() }, world)?;
        runtime.fault(fault);
        // Something is on the file system, and with these thresholds that is too much.
        let config = format!(
            "[node]\npods = \"none\"\nbeside_kubelet = \"all\"\nruntime_endpoint = \"{}\"\nstate = {:?}\nhigh = 1\nlow = 0\n\
             period = \"1s\"\n[node.images]\nperiod = \"1s\"\nmin_age = \"0s\"\n\
             [node.roots]\npods = {:?}\ncontainers = {:?}\n",
            runtime.endpoint(),
            path("state.json"),
            path("pods"),
            path("containers"),
        );
        std::fs::write(path("config.toml"), config)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-gc"));
        command.args(["node", "run", "--node", "node", "--config"]).arg(path("config.toml"));
        command.args(["--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0", "--log-format", "json"]);
        command.env_remove("KUBERNETES_SERVICE_HOST");
        let collector = Collector::spawn(command, None).await?;
        Ok(Self { collector, _runtime: runtime, _directory: directory })
    }

    /// The address of its metrics.
    pub fn health_address(&self) -> &str {
        self.collector.health_address()
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
