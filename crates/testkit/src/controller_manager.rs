//! Kubernetes' own garbage collector: kube-controller-manager with no other controller.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::collector::signal;
use super::control_plane::ControlPlane;
use crate::{DEADLINE, Shared, lock, shared, target};

/// Ends it with the standard input, so that it never outlives the test.
const RUN: &str = r#"pid=$1; shift; "$@" </dev/null & echo $! >"$pid"; read -r _; kill -s KILL $!"#;
/// The log line at the start of collection.
const BEGUN: &str = "all resource monitors have synced";

/// A running instance. It ends when this is dropped, and also when this process ends.
#[derive(Debug)]
pub struct ControllerManager {
    child: Child,
    directory: TempDir,
}

impl ControllerManager {
    /// Starts an instance on a real control plane, and returns when it collects.
    pub fn start(plane: &ControlPlane) -> Result<Self> {
        let name = "kube-controller-manager";
        let directory = tempfile::Builder::new().prefix("kube-gc-manager-").tempdir()?;
        let log = File::create(directory.path().join("log"))?;
        let child = Command::new("sh")
            .args(["-c", RUN, "sh"])
            .arg(directory.path().join("pid"))
            .arg(binaries(&[name])?.join(name))
            .arg("--kubeconfig")
            .arg(plane.kubeconfig())
            .args(["--controllers=garbagecollector", "--leader-elect=false", "--port=0", "--secure-port=0"])
            // By default it sends 20 requests a second. Without a limit, it would finish a thousand
            // objects before a scenario can intervene.
            .args(["--kube-api-qps=250", "--kube-api-burst=50", "--v=2"])
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

    /// The instance that collects on a control plane for all scenarios, started by the first
    /// caller.
    pub fn on(plane: &ControlPlane) -> Result<&'static Self> {
        static ALL: Mutex<BTreeMap<String, &'static Shared<ControllerManager>>> = Mutex::new(BTreeMap::new());
        let url = plane.info().url.clone();
        let cell = *lock(&ALL).entry(url).or_insert_with(|| Box::leak(Box::default()));
        shared(cell, || Self::start(plane))
    }

    /// Suspends it until the guard is dropped.
    pub fn freeze(&self) -> Result<Frozen<'_>> {
        self.signal("STOP")?;
        Ok(Frozen(self))
    }

    fn signal(&self, name: &str) -> Result<()> {
        signal(std::fs::read_to_string(self.directory.path().join("pid"))?.trim(), name)
    }

    /// Its log.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.directory.path().join("log"))?)
    }
}

/// Keeps the controller manager suspended until this is dropped.
#[derive(Debug)]
pub struct Frozen<'a>(&'a ControllerManager);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.signal("CONT") {
            eprintln!("kube-controller-manager stays frozen: {error:#}");
        }
    }
}

impl Drop for ControllerManager {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The directory with the binaries of the test control plane and these components.
pub fn binaries(components: &[&str]) -> Result<PathBuf> {
    let ensure = target::repository().join("tests/control-plane/ensure.sh");
    let output = Command::new(&ensure).args(components).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
