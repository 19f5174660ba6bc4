//! Measures the cost of a large cluster: `make bench-scale`.
//!
//! `cluster` defines the objects, `feeder` serves them in place of an API server, `subject` is
//! the program that is measured, and `scenarios` are the measurements.

// A float represents these counts exactly.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod arguments;
mod cluster;
mod feeder;
#[allow(dead_code, reason = "another benchmark's, which takes more of it")]
#[path = "../end_to_end/contestants/kube_gc.rs"]
mod kube_gc;
#[allow(dead_code, reason = "another benchmark's, which takes more of it")]
#[path = "../end_to_end/proc.rs"]
mod linux;
mod proc;
mod report;
mod scenarios;
mod subject;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Parser as _;

use self::arguments::{Arguments, Part, Scale};
use self::cluster::{BLOCK, Cluster};
use self::report::{Circumstances, Results};
use self::scenarios::{churn, growth, namespace, saturation, size, updates};
use self::subject::{GraphThreads, Setup, Subject};

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let scale = arguments.scale()?;
    let program = kube_gc::program(arguments.kube_gc.as_deref(), progress)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let results = runtime.block_on(measure(&arguments, &scale, &program))?;
    std::io::stdout().write_all(results.markdown().as_bytes())?;
    if let Some(path) = &arguments.json {
        let document = serde_json::to_vec_pretty(&results)?;
        std::fs::write(path, document).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

async fn measure(arguments: &Arguments, scale: &Scale, program: &Path) -> Result<Results> {
    let mut results = Results {
        circumstances: circumstances(program)?,
        sizes: Vec::new(),
        updates: None,
        saturation: None,
        churn: None,
        namespace: None,
        growth: Vec::new(),
    };
    let usual = Setup {
        watch_encoding: arguments.watch_encoding,
        partitions: arguments.partitions,
        graph: GraphThreads::Default,
    };
    let apart = Setup { graph: GraphThreads::Own, ..usual };
    let main_size = arguments.main_size(scale);
    let has_events = [Part::Saturation, Part::Churn].into_iter().any(|part| arguments.has(part));
    for &objects in &scale.sizes {
        let is_main = Some(objects) == main_size && has_events;
        if !arguments.has(Part::Sizes) && !is_main {
            continue;
        }
        let subject = Subject::start(program, Cluster::of(objects), apart).await?;
        let measured = size(&subject).await?;
        progress(&format!("{measured:?}"));
        results.sizes.push(measured);
        if is_main {
            events(arguments, scale, &subject, &mut results).await?;
        }
        subject.stop().await?;
    }
    if arguments.has(Part::Updates)
        && let Some(objects) = main_size
    {
        let subject = Subject::start(program, Cluster::of(objects), usual).await?;
        subject.synced().await?;
        let measured = updates(&subject, scale.updates).await?;
        progress(&format!("{measured:?}"));
        results.updates = Some(measured);
        subject.stop().await?;
    }
    if arguments.has(Part::Namespace)
        && let Some(objects) = main_size
    {
        let cluster = Cluster { merged: objects / 2 / BLOCK, ..Cluster::of(objects) };
        let subject = Subject::start(program, cluster, apart).await?;
        progress(&format!("half in one namespace: {:?}", size(&subject).await?));
        let measured = namespace(&subject, scale.after).await?;
        progress(&format!("{measured:?}"));
        results.namespace = Some(measured);
        subject.stop().await?;
    }
    if arguments.has(Part::Growth) {
        results.growth = growth(program, scale.growth, |measured| progress(&format!("{measured:?}"))).await?;
    }
    Ok(results)
}

async fn events(
    arguments: &Arguments,
    scale: &Scale,
    subject: &Subject,
    results: &mut Results,
) -> Result<()> {
    if arguments.has(Part::Saturation) {
        let measured = saturation(subject, scale.saturation).await?;
        progress(&format!("{measured:?}"));
        results.saturation = Some(measured);
    }
    if arguments.has(Part::Churn) {
        let measured = churn(subject, scale.churn).await?;
        progress(&format!("churn: {} pods, {:+.0} bytes an hour", measured.pods, measured.slope));
        results.churn = Some(measured);
    }
    Ok(())
}

fn circumstances(program: &Path) -> Result<Circumstances> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    Ok(Circumstances {
        date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        processors: std::thread::available_parallelism()?.get(),
        kube_gc: kube_gc::version(program)?,
        load: load
            .split(' ')
            .next()
            .and_then(|one| one.parse().ok())
            .context("not what /proc/loadavg says")?,
    })
}

fn progress(line: &str) {
    // A closed standard error is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}
