//! Pages of a collector.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::linux::forget_peak;
use crate::report::Row;
use crate::subject::Subject;
use crate::{milliseconds, quantile};

/// How many pages the quantile is of.
const PAGES: usize = 1000;
/// How many plans are made.
const PLANS: usize = 5;

/// The time of a request, and its answer.
pub async fn get(subject: &Subject, path: &str) -> Result<(Duration, Value)> {
    let began = Instant::now();
    let answer = subject.collector.get_debug(path).await?;
    let took = began.elapsed();
    ensure!(answer.status == 200, "{path}: {answer:?}");
    Ok((took, answer.json()?))
}

/// The 99th percentile of pages of 200 nodes.
pub async fn neighbourhoods(subject: &Subject, roots: &[String], objects: u64) -> Result<Row> {
    let mut times = Vec::new();
    let mut nodes = 0;
    for uid in roots.iter().cycle().take(PAGES) {
        let (took, page) = get(subject, &format!("/debug/neighbourhood?uid={uid}&limit=200")).await?;
        nodes = nodes.max(page["nodes"].as_array().map_or(0, Vec::len));
        times.push(took);
    }
    let what = format!("`/debug/neighbourhood` of {nodes} nodes, {objects} objects, 99th percentile");
    Ok(milliseconds(what, quantile(&mut times, 0.99), Some(Duration::from_millis(50))))
}

/// The plan of an object with many dependents: its time, and what it adds to the collector's memory.
pub async fn plan(subject: &Subject, uid: &str, dependents: u64) -> Result<[Row; 2]> {
    let before = subject.resident()?;
    forget_peak(subject.collector.pid())?;
    let mut times = Vec::new();
    for _ in 0..PLANS {
        let (took, plan) = get(subject, &format!("/debug/plan?uid={uid}&policy=foreground&limit=1")).await?;
        ensure!(plan["deletes"].as_u64() > Some(dependents), "{plan}");
        times.push(took);
    }
    let what = format!("`/debug/plan` of an object with {dependents} dependents");
    let more = (subject.peak()? - before) / f64::from(1 << 20);
    Ok([
        milliseconds(format!("{what}, median"), quantile(&mut times, 0.5), Some(Duration::from_secs(1))),
        Row { what: format!("{what}: more memory, peak"), measured: more, unit: "MiB", target: None },
    ])
}
