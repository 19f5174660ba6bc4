//! Commands, from their start to their end.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::common::cluster::Cluster;
use crate::common::feeder::Feeder;
use crate::common::proc::memory;
use crate::common::progress;
use crate::common::report::Row;
use crate::common::subject::Subject;
use crate::quantile;

/// How often a command runs.
const RUNS: usize = 7;

/// `tree` from a collector.
pub async fn tree(program: &Path, subject: &Subject, uid: &str, objects: u64) -> Result<Row> {
    let url = format!("http://{}", subject.collector.debug_address());
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let mut command = command(program, "tree", subject.kubeconfig());
        command.arg(format!("uid:{uid}")).args(["-o", "json", "--collector", &url]);
        times.push(run(command).await?.took);
    }
    let what = format!("`tree -o json` of 200 nodes from a collector of {objects} objects, median");
    Ok(Row::milliseconds(what, quantile(&mut times, 0.5), Some(300.0)))
}

/// The time of `check` of everything, and the peak of its memory.
pub async fn check(program: &Path, cluster: Cluster) -> Result<[Row; 2]> {
    let of = format!("`check -A` of {} objects", cluster.objects());
    progress(&of);
    let feeder = Feeder::start(cluster).await?;
    let kubeconfig = tempfile::NamedTempFile::new()?;
    std::fs::write(&kubeconfig, feeder.kubeconfig())?;
    let (mut times, mut peak) = (Vec::new(), 0.0_f64);
    for _ in 0..RUNS {
        let mut command = command(program, "check", kubeconfig.path());
        command.arg("-A");
        let ran = run(command).await?;
        times.push(ran.took);
        peak = peak.max(ran.peak);
    }
    feeder.understood_all()?;
    Ok([
        Row::milliseconds(format!("{of}, median"), quantile(&mut times, 0.5), Some(3000.0)),
        Row::new(format!("{of}, peak memory"), peak, "MiB", Some(60.0)),
    ])
}

/// A command that asks lists unless it is told otherwise.
pub fn command(program: &Path, name: &str, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(name).arg("--kubeconfig").arg(kubeconfig);
    command
}

/// What a command took.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// From its start to its end.
    pub took: Duration,
    /// The peak of its memory in MiB.
    pub peak: f64,
}

/// Runs a command that must succeed.
pub async fn run(mut command: Command) -> Result<Ran> {
    let output = tempfile::NamedTempFile::new()?;
    command.stdin(Stdio::null()).stdout(output.reopen()?);
    let began = Instant::now();
    let mut child: Child = command.spawn()?;
    let mut peak = 0.0_f64;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // It may have ended since.
        peak = memory(child.id()).map_or(peak, |memory| peak.max(memory.peak));
        sleep(Duration::from_millis(1)).await;
    };
    let took = began.elapsed();
    ensure!(status.success(), "{command:?}: {status}: {}", std::fs::read_to_string(output.path())?);
    Ok(Ran { took, peak })
}
