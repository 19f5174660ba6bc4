//! The garbage collector of Kubernetes itself: kube-controller-manager with nothing else
//! in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use tempfile::TempDir;

use super::control_plane::ControlPlane;
use crate::environment::{self, Environment};
use crate::target;

/// Whether it is the one that collects in this scenario, and ours looks on.
pub fn collects() -> bool {
    environment::current() == Environment::Beside
}

/// What it does not master, in release 1.20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Objects that block each other in a ring and are all deleted in the foreground: it
    /// unblocks what it deletes itself, and here that is none of them. They wait for ever.
    RingInForeground,
    /// An object that blocks itself and is deleted in the foreground: likewise.
    BlocksItself,
    /// A type that cannot be listed: once it has found the type, it collects nothing at all
    /// until it can be.
    UnlistableType,
    /// Dependents that it has not seen when it orphans the others: it deletes them
    /// (kubernetes#26120). Whether there are any is a matter of luck.
    LateDependents,
    /// A foreground deletion while it orphans, or right after the orphan deletion was told:
    /// what it has heard of it finishes, and everybody is released. A dependent that it is
    /// looking at for the second deletion it may delete although it has just released it,
    /// because its DELETE is bound to nothing but the uid.
    ForegroundWhileOrphaning,
    /// An orphan deletion right after a foreground deletion: what it has begun to look at for the
    /// first it may delete after it has orphaned it for the second, since it finds the owner gone
    /// and its DELETE is bound to nothing but the uid. Whether it does is a matter of luck.
    OrphanWhileDeleting,
}

/// Whether a scenario has to do without this, because the one that collects fails at it.
pub fn fails_at(weakness: Weakness) -> bool {
    match weakness {
        Weakness::RingInForeground
        | Weakness::BlocksItself
        | Weakness::UnlistableType
        | Weakness::LateDependents
        | Weakness::ForegroundWhileOrphaning
        | Weakness::OrphanWhileDeleting => collects(),
    }
}

/// Ends it with the standard input, so that it never outlives the test, however that ends.
const RUN: &str = r#"pid=$1; shift; "$@" </dev/null & echo $! >"$pid"; read -r _; kill -s KILL $!"#;
/// What it says when it begins to collect.
const BEGUN: &str = "all resource monitors have synced";
const DEADLINE: Duration = Duration::from_secs(60);

/// One that tests share.
type Shared = OnceLock<Result<ControllerManager, String>>;

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
            .arg(directory.path().join("pid"))
            .arg(binaries(&[name])?.join(name))
            .arg("--kubeconfig")
            .arg(plane.kubeconfig())
            .args(["--controllers=garbagecollector", "--leader-elect=false", "--port=0", "--secure-port=0"])
            // By default it sends 20 requests a second; without a limit it would be over with
            // a thousand objects before anybody could come in between.
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

    /// The one that collects on a plane for all scenarios, started by the first
    /// that asks.
    pub fn on(plane: &ControlPlane) -> Result<&'static Self> {
        static ALL: Mutex<BTreeMap<String, &'static Shared>> = Mutex::new(BTreeMap::new());
        let shared = {
            // A panic of another test says nothing about what the lock guards.
            let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
            *all.entry(plane.info().url.clone()).or_insert_with(|| Box::leak(Box::default()))
        };
        let shared = shared.get_or_init(|| Self::start(plane).map_err(|error| format!("{error:#}")));
        shared.as_ref().map_err(|error| anyhow!("{error}"))
    }

    /// Makes it do nothing, until the guard is dropped.
    pub fn freeze(&self) -> Result<Frozen<'_>> {
        self.signal("STOP")?;
        Ok(Frozen(self))
    }

    fn signal(&self, name: &str) -> Result<()> {
        let pid = std::fs::read_to_string(self.directory.path().join("pid"))?;
        // The shell's own `kill`: neither unsafe code nor a crate for it.
        let status =
            Command::new("sh").args(["-c", r#"kill -s "$1" "$2""#, "sh", name, pid.trim()]).status()?;
        ensure!(status.success(), "cannot send SIG{name} to kube-controller-manager");
        Ok(())
    }

    /// What it has logged.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.directory.path().join("log"))?)
    }
}

/// It does nothing as long as this lives.
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

/// The directory with what the test control plane has, and these components.
pub fn binaries(components: &[&str]) -> Result<PathBuf> {
    let ensure = target::repository().join("tests/control-plane/ensure.sh");
    let output = Command::new(&ensure).args(components).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
