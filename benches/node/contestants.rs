//! The two contestants, and what they take.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube_gc_cri::Rpc;
use kube_gc_cri::testing::{Kubelet, KubeletPass, KubeletRules};
use tokio::time::sleep;

use crate::process;
use crate::world::{CONTAINERS, DEAD, Host, Node};

/// How many passes an idle turn measures.
const PASSES: usize = 5;
const DEADLINE: Duration = Duration::from_secs(60);

/// A pass that finds nothing to do.
#[derive(Clone, Copy)]
pub struct Idle {
    pub calls: f64,
    pub cpu_milliseconds: f64,
    pub peak_mib: f64,
}

/// A pass that removes dead containers.
#[derive(Clone, Copy)]
pub struct Removal {
    pub calls_per_container: f64,
    pub milliseconds: f64,
}

/// The kubelet's own functions, in a process that waits to be told.
pub struct TheKubelet {
    kubelet: Kubelet,
}

impl TheKubelet {
    pub async fn start(host: &Host) -> Result<Self> {
        let mut kubelet = Kubelet::start(&Kubelet::program().await?)?;
        kubelet.set_up(host.runtime.endpoint(), host.root.path(), &KubeletRules::default()).await?;
        Ok(Self { kubelet })
    }

    async fn pass(&mut self) -> Result<()> {
        let pass = KubeletPass {
            containers: true,
            images: true,
            pods: Host::pods(),
            sources_ready: true,
            capacity: 100,
            available: 50,
            ..KubeletPass::default()
        };
        let outcome = self.kubelet.pass(&pass).await?;
        ensure!(outcome.containers.is_empty() && outcome.images.is_empty(), "{outcome:?}");
        Ok(())
    }

    pub async fn idle(&mut self, host: &Host) -> Result<Idle> {
        host.reset(Node::Idle);
        let pid = self.kubelet.pid().context("the kubelet has ended")?;
        self.pass().await?;
        let (calls, cpu) = (host.calls(), process::cpu(pid)?);
        for _ in 0..PASSES {
            self.pass().await?;
        }
        idle(host, pid, PASSES, calls, cpu)
    }

    pub async fn dead_containers(&mut self, host: &Host) -> Result<Removal> {
        host.reset(Node::Crashed);
        let started = Instant::now();
        self.pass().await?;
        removal(host, started)
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

    fn start(&self, subcommand: &str) -> Result<Running> {
        let mut command = Command::new(&self.binary);
        command.args(["node", subcommand]).env_clear().stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(Running(command.spawn()?))
    }

    pub async fn idle(&self, host: &Host) -> Result<Idle> {
        host.reset(Node::Idle);
        let running = self.start("run")?;
        let pid = running.0.id();
        // The first pass also connects.
        let first = passes(host, 1).await?;
        let (calls, cpu) = (host.calls(), process::cpu(pid)?);
        let last = passes(host, first + PASSES).await?;
        idle(host, pid, last - first, calls, cpu)
    }

    pub async fn dead_containers(&self, host: &Host) -> Result<Removal> {
        host.reset(Node::Crashed);
        let started = Instant::now();
        let mut running = self.start("once")?;
        let status = tokio::task::spawn_blocking(move || running.0.wait()).await??;
        ensure!(status.success(), "kube-gc node once: {status}");
        removal(host, started)
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
    Ok(Idle {
        calls: calls / passes,
        cpu_milliseconds: cpu.as_secs_f64() * 1000.0 / passes,
        peak_mib: process::peak(pid)?,
    })
}

fn removal(host: &Host, started: Instant) -> Result<Removal> {
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    let removed = usize::try_from(CONTAINERS)? - host.containers();
    ensure!(removed == DEAD, "{removed} containers were removed");
    let is_about_one = |about: &str| !about.is_empty();
    let calls = host.runtime.journal().iter().filter(|entry| is_about_one(&entry.about)).count();
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    Ok(Removal { calls_per_container: calls as f64 / removed as f64, milliseconds })
}
