//! Measures what answers about a cluster cost: `make bench-insight`.
//!
//! The cluster is that of `make bench-scale`, whose feeder replaces the API server. The commands and the
//! collector are the program as it is released.

// A float represents these counts exactly.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod command;
#[allow(dead_code, reason = "shared with another benchmark, which takes more of it")]
#[path = "../common/mod.rs"]
mod common;
mod pages;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use self::common::cluster::{BLOCK, Cluster, Custom, DEPLOYMENT, Number, object};
use self::common::report::Report;
use self::common::subject::Subject;
use self::common::{kube_gc, progress};

/// Measures the cost of answers, and compares it with the targets.
///
/// The table goes to standard output, progress to standard error. The exit code is 0 if everything
/// was measured, whether or not the targets are met.
#[derive(Debug, Parser)]
#[command(name = "insight", bin_name = "cargo bench --bench insight --")]
struct Arguments {
    /// Objects of the large cluster
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    objects: u64,

    /// Small clusters, to see that everything works
    #[arg(long, conflicts_with = "objects")]
    quick: bool,

    /// The kube-gc to measure [default: the one that `cargo build --release --locked --bin
    /// kube-gc` builds]
    #[arg(long, value_name = "PATH")]
    kube_gc: Option<PathBuf>,

    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let program = kube_gc::program(arguments.kube_gc.as_deref(), progress)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(&arguments, &program))?;
    std::io::stdout().write_all(report.markdown().as_bytes())?;
    Ok(())
}

async fn measure(arguments: &Arguments, program: &std::path::Path) -> Result<Report> {
    let (large, many) = if arguments.quick { (20_000, 2_000) } else { (arguments.objects, 100_000) };
    let mut report = Report::begin(program)?;

    // A tenth are blocks; the others belong to the first Deployment of a block.
    let blocks = (large / 10 / BLOCK).max(1);
    let custom = Custom { types: 10, objects: large - blocks * BLOCK };
    let cluster = Cluster { blocks, custom };
    let subject = started(program, cluster).await?;
    let roots: Vec<String> = (0..blocks).map(|block| deployment(&cluster, block)).collect();
    report.extend([command::tree(program, &subject, &roots[0], cluster.objects()).await?]);
    report.extend([pages::neighbourhoods(&subject, &roots, cluster.objects()).await?]);
    report.extend([pages::searches(&subject, cluster.objects()).await?]);
    report.extend([pages::changed(&subject, cluster.objects()).await?]);
    subject.stop().await?;

    let cluster = Cluster { blocks: 1, custom: Custom { types: 10, objects: many } };
    let subject = started(program, cluster).await?;
    report.extend([pages::plan(&subject, &deployment(&cluster, 0), many).await?]);
    subject.stop().await?;

    report.extend(command::check(program, Cluster::of(many)).await?);
    Ok(report)
}

async fn started(program: &std::path::Path, cluster: Cluster) -> Result<Subject> {
    progress(&format!("a collector of {} objects", cluster.objects()));
    let subject = Subject::start(program, cluster).await?;
    subject.synced().await?;
    subject.seen(None).await?;
    Ok(subject)
}

/// The uid of the first Deployment of a block.
fn deployment(cluster: &Cluster, block: u64) -> String {
    uid(cluster, Number(block * BLOCK + DEPLOYMENT))
}

/// The uid of an object.
fn uid(cluster: &Cluster, number: Number) -> String {
    let mut text = String::new();
    object(&mut text, cluster, number, 1);
    let object: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// The value below which this part of the times is.
fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort();
    let place = (times.len() as f64 * part).ceil() as usize;
    times.get(place.saturating_sub(1)).copied().unwrap_or_default()
}
