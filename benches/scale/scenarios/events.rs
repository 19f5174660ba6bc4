//! Events that change nothing: at a usual rate, and at the highest rate that kube-gc can process.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::paced;
use crate::subject::Subject;

/// The cost of a steady stream of updates.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Updates {
    pub per_second: f64,
    /// The CPU time in cores.
    pub cores: f64,
    /// The part on the threads of the graph, if it has its own.
    pub graph_cores: Option<f64>,
}

/// Ten thousand updates a second, of any objects; none changes a reference.
pub async fn updates(subject: &Subject, lasting: Duration) -> Result<Updates> {
    subject.seen(None).await?;
    let (before, began) = (subject.cpu()?, Instant::now());
    let feeder = &subject.feeder;
    let mut last = None;
    let last_of = &mut last;
    let turns = paced(10_000, lasting, |turn| {
        let number = feeder.cluster.any(turn);
        *last_of = Some(number);
        async move {
            feeder.update(number).await;
        }
    })
    .await;
    let last = match last {
        Some(number) => Some(feeder.update(number).await),
        None => None,
    };
    subject.seen(last).await?;
    let (took, cpu) = (began.elapsed().as_secs_f64(), subject.cpu()?.since(before));
    Ok(Updates {
        per_second: turns as f64 / took,
        cores: cpu.all.as_secs_f64() / took,
        graph_cores: cpu.graph.map(|graph| graph.as_secs_f64() / took),
    })
}

/// The results at saturation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Saturation {
    pub events: u64,
    pub seconds: f64,
    pub cpu: f64,
    /// The part on the threads of the graph.
    pub graph_cpu: f64,
}

impl Saturation {
    pub fn per_second(&self) -> f64 {
        self.events as f64 / self.seconds
    }

    /// Events per second of CPU, including reading and decoding.
    pub fn per_core(&self) -> f64 {
        self.events as f64 / self.cpu
    }

    /// Events per second of CPU on the threads of the graph.
    pub fn per_graph_core(&self) -> f64 {
        self.events as f64 / self.graph_cpu
    }
}

/// As many updates as kube-gc can process: the feeder waits for the slowest watch.
pub async fn saturation(subject: &Subject, events: u64) -> Result<Saturation> {
    subject.seen(None).await?;
    let before = subject.cpu()?;
    let seconds = as_many_as_possible(subject, events).await?;
    let cpu = subject.cpu()?.since(before);
    Ok(Saturation { events, seconds, cpu: cpu.all.as_secs_f64(), graph_cpu: cpu.graph_seconds()? })
}

/// Sends updates as fast as they are read, and returns how many seconds they took.
pub async fn as_many_as_possible(subject: &Subject, events: u64) -> Result<f64> {
    subject.seen(None).await?;
    let began = Instant::now();
    let feeder = &subject.feeder;
    let mut last = std::collections::BTreeMap::new();
    for turn in 0..events {
        let (resource, version) = feeder.update(feeder.cluster.any(turn)).await;
        last.insert(resource, version);
    }
    for told in last {
        subject.seen(Some(told)).await?;
    }
    Ok(began.elapsed().as_secs_f64())
}
