//! The two contestants, and what they take.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube_gc_cri::Rpc;
use kube_gc_cri::testing::{Kubelet, KubeletPass, KubeletRules};
use kube_gc_node::Ledger;
use kube_gc_node::ledger::Age;
use tokio::time::sleep;

use crate::process;
use crate::world::{CONTAINERS, DEAD, Host, IMAGE_BYTES, IMAGES, Node, OLD};

/// How many passes an idle turn measures.
const PASSES: usize = 5;
const DEADLINE: Duration = Duration::from_secs(60);
/// How many percent of the file system are free where no image has to go.
const ENOUGH: u64 = 50;
/// How long an image may be unused.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// A pass that finds nothing to do.
#[derive(Clone, Copy)]
pub struct Idle {
    pub calls: f64,
    pub cpu_milliseconds: f64,
}

/// A pass that removes something.
#[derive(Clone, Copy)]
pub struct Removal {
    /// Calls about one item, for each item that has gone.
    pub calls_for_each: f64,
    pub milliseconds: f64,
}

/// One pass of a process that ends with it, over twice as many images.
#[derive(Clone, Copy)]
pub struct Large {
    pub milliseconds: f64,
    pub mebibytes: f64,
}

/// One turn.
#[derive(Clone, Copy)]
pub struct Turn {
    pub idle: Idle,
    pub containers: Removal,
    pub images: Removal,
    /// Nothing of the kubelet, which is no process of its own here.
    pub large: Option<Large>,
}

/// The kubelet's own functions, in a process that waits to be told.
pub struct TheKubelet {
    kubelet: Kubelet,
}

impl TheKubelet {
    pub async fn start(host: &Host) -> Result<Self> {
        let mut kubelet = Kubelet::start(&Kubelet::program().await?)?;
        // Images count as old at once, because the kubelet has not seen them for long.
        let rules = KubeletRules { image_min_age_seconds: 0, ..KubeletRules::default() };
        kubelet.set_up(host.runtime.endpoint(), host.root.path(), &rules).await?;
        Ok(Self { kubelet })
    }

    pub async fn turn(&mut self, host: &Host) -> Result<Turn> {
        Ok(Turn {
            idle: self.idle(host).await?,
            containers: self.dead_containers(host).await?,
            images: self.old_images(host).await?,
            large: None,
        })
    }

    /// A pass with so many percent of the file system of the images free.
    async fn pass(&mut self, free: u64) -> Result<()> {
        let capacity = u64::from(IMAGES) * IMAGE_BYTES;
        let pass = KubeletPass {
            containers: true,
            images: true,
            pods: Host::pods(),
            sources_ready: true,
            capacity,
            available: capacity * free / 100,
            ..KubeletPass::default()
        };
        let outcome = self.kubelet.pass(&pass).await?;
        ensure!(outcome.containers.is_empty() && outcome.images.is_empty(), "{outcome:?}");
        Ok(())
    }

    async fn idle(&mut self, host: &Host) -> Result<Idle> {
        host.reset(Node::Idle);
        let pid = self.kubelet.pid().context("the kubelet has ended")?;
        self.pass(ENOUGH).await?;
        let (calls, cpu) = (host.calls(), process::cpu(pid)?);
        for _ in 0..PASSES {
            self.pass(ENOUGH).await?;
        }
        idle(host, pid, PASSES, calls, cpu)
    }

    async fn dead_containers(&mut self, host: &Host) -> Result<Removal> {
        host.reset(Node::Crashed);
        let started = Instant::now();
        self.pass(ENOUGH).await?;
        dead_containers(host, started)
    }

    /// The kubelet of this release removes images only for space: it frees from 85 down to 80 percent.
    async fn old_images(&mut self, host: &Host) -> Result<Removal> {
        host.reset(Node::Idle);
        let started = Instant::now();
        self.pass(15).await?;
        old_images(host, started)
    }
}

/// The binary, as a user starts it.
pub struct KubeGc {
    binary: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl KubeGc {
    pub fn new(host: &Host, binary: PathBuf) -> Self {
        let logs = |name: &str| host.logs(name).display().to_string();
        let environment = vec![
            ("KUBE_GC__NODE__RUNTIME_ENDPOINT", host.runtime.endpoint().to_string()),
            ("KUBE_GC__NODE__PODS", "none".to_owned()),
            ("KUBE_GC__NODE__STATE", host.root.path().join("state.json").display().to_string()),
            ("KUBE_GC__NODE__ROOTS__PODS", logs("pods")),
            ("KUBE_GC__NODE__ROOTS__CONTAINERS", logs("containers")),
            // This machine may run one, and its disk is not that of the runtime.
            ("KUBE_GC__NODE__BESIDE_KUBELET", "all".to_owned()),
            ("KUBE_GC__NODE__HIGH", "100".to_owned()),
            ("KUBE_GC__NODE__PERIOD", "1s".to_owned()),
            ("KUBE_GC__NODE__IMAGES__PERIOD", "1s".to_owned()),
            ("KUBE_GC__HTTP__LISTEN", "127.0.0.1:0".to_owned()),
            ("KUBE_GC__HTTP__DEBUG_LISTEN", "127.0.0.1:0".to_owned()),
        ];
        Self { binary, environment }
    }

    pub async fn turn(&self, host: &Host) -> Result<Turn> {
        Ok(Turn {
            idle: self.idle(host).await?,
            containers: self.dead_containers(host).await?,
            images: self.old_images(host).await?,
            large: Some(self.large(host).await?),
        })
    }

    /// What is promised of a pass over 2,000 images and 1,800 containers.
    async fn large(&self, host: &Host) -> Result<Large> {
        host.reset(Node::Large);
        let running = self.start("run", &[])?;
        passes(host, 1).await?;
        let mebibytes = process::peak(running.0.id())?;
        drop(running);
        let started = Instant::now();
        self.once(&[]).await?;
        let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
        ensure!(milliseconds <= 200.0 && mebibytes <= 30.0, "{milliseconds} ms and {mebibytes} MiB");
        Ok(Large { milliseconds, mebibytes })
    }

    fn start(&self, subcommand: &str, more: &[(&str, &str)]) -> Result<Running> {
        let mut command = Command::new(&self.binary);
        command.args(["node", subcommand]).env_clear().stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(more.iter().copied());
        Ok(Running(command.spawn()?))
    }

    async fn idle(&self, host: &Host) -> Result<Idle> {
        host.reset(Node::Idle);
        let running = self.start("run", &[])?;
        let pid = running.0.id();
        // The first pass also connects.
        let first = passes(host, 1).await?;
        let (calls, cpu) = (host.calls(), process::cpu(pid)?);
        let last = passes(host, first + PASSES).await?;
        idle(host, pid, last - first, calls, cpu)
    }

    /// By a process that runs already, as the kubelet's does.
    async fn dead_containers(&self, host: &Host) -> Result<Removal> {
        host.reset(Node::Idle);
        let _running = self.start("run", &[])?;
        passes(host, 1).await?;
        host.reset(Node::Crashed);
        until(|| host.calls() > 0).await?;
        let started = Instant::now();
        let left = usize::try_from(CONTAINERS)? - DEAD;
        until(|| host.containers() == left).await?;
        dead_containers(host, started)
    }

    /// For their age, because the file system of this machine does not show what the runtime frees.
    /// As many are old as one pass removes.
    async fn old_images(&self, host: &Host) -> Result<Removal> {
        host.reset(Node::Idle);
        let mut ledger = Ledger::default();
        for (number, id) in host.image_ids().iter().enumerate() {
            let is_old = number < usize::try_from(OLD)?;
            let detected = if is_old { 2 * MAX_AGE } else { Duration::ZERO };
            ledger.set(id, Age { detected, used: None });
        }
        let socket = host.runtime.endpoint().path().display().to_string();
        let socket = socket.trim_start_matches('/').replace('-', r"\x2d").replace('/', "-");
        std::fs::write(host.root.path().join(format!("state.json.{socket}")), ledger.to_json()?)?;
        let max_age = format!("{}s", MAX_AGE.as_secs());
        let started = Instant::now();
        let old =
            [("KUBE_GC__NODE__IMAGES__MAX_AGE", max_age.as_str()), ("KUBE_GC__NODE__IMAGES__MIN_AGE", "0s")];
        self.once(&old).await?;
        old_images(host, started)
    }

    /// Runs `kube-gc node once` to its end.
    async fn once(&self, more: &[(&str, &str)]) -> Result<()> {
        let mut running = self.start("once", more)?;
        let status = tokio::task::spawn_blocking(move || running.0.wait()).await??;
        ensure!(status.success(), "kube-gc node once: {status}");
        Ok(())
    }
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for something, to the millisecond.
async fn until(mut is_so: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        ensure!(Instant::now() < deadline, "nothing has happened for {DEADLINE:?}");
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Waits until so many passes have listed containers, and a little longer for the rest of the last.
async fn passes(host: &Host, wanted: usize) -> Result<usize> {
    let deadline = Instant::now() + DEADLINE;
    let mut calls = 0;
    loop {
        let listed = host.runtime.calls(Rpc::ListContainers).len();
        // A pass has ended when no call follows.
        if listed >= wanted && host.calls() == calls {
            return Ok(listed);
        }
        calls = host.calls();
        ensure!(Instant::now() < deadline, "only {listed} of {wanted} passes");
        sleep(Duration::from_millis(100)).await;
    }
}

fn idle(host: &Host, pid: u32, passes: usize, calls: usize, cpu: Duration) -> Result<Idle> {
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let (passes, calls) = (passes as f64, (host.calls() - calls) as f64);
    let containers = usize::try_from(CONTAINERS)?;
    ensure!(host.containers() == containers, "{} containers are left", host.containers());
    let cpu = process::cpu(pid)?.saturating_sub(cpu);
    Ok(Idle { calls: calls / passes, cpu_milliseconds: cpu.as_secs_f64() * 1000.0 / passes })
}

fn dead_containers(host: &Host, started: Instant) -> Result<Removal> {
    let elapsed = started.elapsed();
    let removed = usize::try_from(CONTAINERS)? - host.containers();
    ensure!(removed == DEAD, "{removed} containers were removed");
    Ok(removal(host, removed, elapsed))
}

fn old_images(host: &Host, started: Instant) -> Result<Removal> {
    let elapsed = started.elapsed();
    let removed = usize::try_from(IMAGES)? - host.images();
    ensure!(removed == usize::try_from(OLD)?, "{removed} images were removed");
    Ok(removal(host, removed, elapsed))
}

fn removal(host: &Host, removed: usize, elapsed: Duration) -> Removal {
    let milliseconds = elapsed.as_secs_f64() * 1000.0;
    let is_about_one = |about: &str| !about.is_empty();
    let calls = host.runtime.journal().iter().filter(|entry| is_about_one(&entry.about)).count();
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let calls_for_each = calls as f64 / removed as f64;
    Removal { calls_for_each, milliseconds }
}
