//! Commands, from their start to their end.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::feeder::{Feeder, WatchEncoding};
use crate::linux::memory;
use crate::report::Row;
use crate::subject::Subject;
use crate::{milliseconds, progress, quantile};

/// How often a command runs.
const RUNS: usize = 7;

/// `tree` from a collector.
pub async fn tree(program: &Path, subject: &Subject, uid: &str, objects: u64) -> Result<Row> {
    let url = format!("http://{}", subject.collector.debug_address());
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let mut command = Command::new(program);
        command.arg("tree").arg(format!("uid:{uid}")).args(["-o", "json", "--collector", &url]);
        command.arg("--kubeconfig").arg(subject.kubeconfig());
        let (took, _) = run(command).await?;
        times.push(took);
    }
    let what = format!("`tree -o json` of 200 nodes from a collector of {objects} objects, median");
    Ok(milliseconds(what, quantile(&mut times, 0.5), Duration::from_millis(300)))
}

/// `check` of everything.
pub async fn check(program: &Path, cluster: Cluster) -> Result<[Row; 2]> {
    let objects = cluster.objects();
    progress(&format!("check of {objects} objects"));
    let feeder = Feeder::start(cluster, WatchEncoding::default()).await?;
    let kubeconfig = tempfile::NamedTempFile::new()?;
    std::fs::write(&kubeconfig, feeder.kubeconfig())?;
    let (mut times, mut peak) = (Vec::new(), 0.0_f64);
    for _ in 0..RUNS {
        let mut command = Command::new(program);
        command.args(["check", "-A", "--kubeconfig"]).arg(kubeconfig.path());
        let (took, mib) = run(command).await?;
        times.push(took);
        peak = peak.max(mib);
    }
    let what = format!("`check -A` of {objects} objects");
    let time = milliseconds(format!("{what}, median"), quantile(&mut times, 0.5), Duration::from_secs(3));
    let memory = Row { what: format!("{what}, peak memory"), measured: peak, unit: "MiB", target: 60.0 };
    Ok([time, memory])
}

/// Runs a command that must succeed. Returns its time, and the peak of its memory in MiB.
async fn run(mut command: Command) -> Result<(Duration, f64)> {
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
    Ok((took, peak))
}
