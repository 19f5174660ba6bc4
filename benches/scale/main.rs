//! Measures the cost of a large cluster: `make bench-scale`.

// A float represents these counts exactly.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

#[allow(dead_code, reason = "shared with another benchmark, which takes more of it")]
#[path = "../common/mod.rs"]
mod common;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use tokio::time::sleep;

use self::common::cluster::{BLOCK, Cluster};
use self::common::report::{Report, Row};
use self::common::subject::Subject;
use self::common::{kube_gc, progress};

/// Measures the memory, time and CPU that kube-gc takes for a large cluster.
///
/// A feeder inside this program replaces the API server. It serves any number of objects in the
/// shape of a real cluster, and stores none of them. The table goes to standard output, progress
/// to standard error. docs/benchmarks.md explains how to read it. The exit code is 0 if everything
/// was measured, whether or not the goals are met.
#[derive(Debug, Parser)]
#[command(name = "scale", bin_name = "cargo bench --bench scale --")]
struct Arguments {
    /// The sizes of the clusters in objects, separated by commas; events are measured with the last
    /// one
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "10000,100000,1000000")]
    objects: Vec<u64>,

    /// Small clusters and short times, to see that everything works
    #[arg(long, conflicts_with = "objects")]
    quick: bool,

    /// The kube-gc to measure [default: the one that `cargo build --release --locked --bin
    /// kube-gc` builds]
    #[arg(long, value_name = "PATH")]
    kube_gc: Option<PathBuf>,

    /// The file for all figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// `cargo bench` passes this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let program = kube_gc::program(arguments.kube_gc.as_deref(), progress)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(&arguments, &program))?;
    std::io::stdout().write_all(report.markdown().as_bytes())?;
    if let Some(path) = &arguments.json {
        let document = serde_json::to_vec_pretty(&report)?;
        std::fs::write(path, document).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

async fn measure(arguments: &Arguments, program: &Path) -> Result<Report> {
    let (sizes, lasting, events) = if arguments.quick {
        (&[2000, 20_000][..], Duration::from_secs(5), 50_000)
    } else {
        (&*arguments.objects, Duration::from_secs(30), 2_000_000)
    };
    ensure!(sizes.iter().all(|&size| size >= BLOCK), "a cluster has at least {BLOCK} objects");
    let mut report = Report::begin(program)?;
    for (place, &objects) in sizes.iter().enumerate() {
        let subject = Subject::start(program, Cluster::of(objects)).await?;
        report.extend(size(&subject).await?);
        if place + 1 == sizes.len() {
            report.extend(self::events(&subject, lasting, events).await?);
        }
        subject.stop().await?;
    }
    Ok(report)
}

/// Waits until everything is read, and measures the cost.
async fn size(subject: &Subject) -> Result<[Row; 4]> {
    /// Memory that is returned to the system soon is returned by then.
    const SOON: Duration = Duration::from_secs(2);
    let took = subject.synced().await?;
    let cpu = subject.cpu()?;
    subject.seen(None).await?;
    sleep(SOON).await;
    let objects = subject.feeder.cluster.objects();
    let memory = subject.memory()?;
    let of = |what: &str| format!("{objects} objects: {what}");
    // The goal of a million objects holds for fewer, too.
    let most = (objects <= 1_000_000).then_some(250.0);
    Ok([
        Row::new(of("whole process"), memory.resident, "MiB", most),
        Row::new(of("peak"), memory.peak, "MiB", None),
        Row::new(of("start until ready"), took.as_secs_f64(), "s", None),
        Row::new(of("CPU until then"), cpu.as_secs_f64(), "s", None),
    ])
}

/// Events that change nothing: at a usual rate, and at the highest rate that kube-gc can process.
async fn events(subject: &Subject, lasting: Duration, count: u64) -> Result<[Row; 3]> {
    let updates = subject.updates(lasting).await?;
    let most = subject.as_many_as_possible(count).await?;
    let rate = updates.count as f64 / updates.seconds;
    let share = updates.cpu / updates.seconds * 100.0;
    Ok([
        Row::new(format!("{rate:.0} updates a second"), share, "% of a core", Some(10.0)),
        Row::new("CPU of an event at the highest rate", most.cpu / most.count as f64 * 1e6, "µs", Some(3.0)),
        Row::new("the highest rate", most.count as f64 / most.seconds, "events/s", None),
    ])
}
