//! The garbage collector of Kubernetes itself: kube-controller-manager with nothing else
//! in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::control_plane::ControlPlane;

/// Whether in this binary it is the one that collects, and ours looks on: so it is by the
/// binary's name.
pub fn collects() -> bool {
    env!("CARGO_CRATE_NAME") == "beside"
}

/// Ends it with the standard input, so that it never outlives the test, however that ends.
const RUN: &str = r#""$@" </dev/null & read -r _; kill -s KILL $!"#;
/// What it says when it begins to collect.
const BEGUN: &str = "all resource monitors have synced";
const DEADLINE: Duration = Duration::from_secs(60);

/// A running one. It ends with this value, and also with this process.
#[derive(Debug)]
pub struct ControllerManager {
    child: Child,
    directory: TempDir,
}

impl ControllerManager {
    /// Starts one on a real control plane, and returns when it collects.
    pub fn start(plane: &ControlPlane) -> Result<Self> {
        let name = "kube-controller-manager";
        let directory = tempfile::Builder::new().prefix("kube-gc-manager-").tempdir()?;
        let log = File::create(directory.path().join("log"))?;
        let child = Command::new("sh")
            .args(["-c", RUN, "sh"])
            .arg(binaries(&[name])?.join(name))
            .arg("--kubeconfig")
            .arg(plane.kubeconfig())
            .args(["--controllers=garbagecollector", "--leader-elect=false", "--port=0", "--secure-port=0"])
            // By default it sends 20 requests a second.
            .args(["--kube-api-qps=5000", "--kube-api-burst=5000", "--v=2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot run kube-controller-manager")?;
        let manager = Self { child, directory };
        let deadline = Instant::now() + DEADLINE;
        while !manager.log()?.contains(BEGUN) {
            ensure!(
                Instant::now() < deadline,
                "kube-controller-manager does not collect:\n{}",
                manager.log()?
            );
            sleep(Duration::from_millis(50));
        }
        Ok(manager)
    }

    /// The one that all tests of this binary share, on the plane that they share.
    pub fn shared(plane: &ControlPlane) -> Result<&'static Self> {
        static SHARED: OnceLock<Result<ControllerManager, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Self::start(plane).map_err(|error| format!("{error:#}")));
        shared.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// What it has logged.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.directory.path().join("log"))?)
    }
}

impl Drop for ControllerManager {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The directory with what the test control plane has, and these components.
pub fn binaries(components: &[&str]) -> Result<PathBuf> {
    let ensure = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane/ensure.sh");
    let output = Command::new(&ensure).args(components).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
