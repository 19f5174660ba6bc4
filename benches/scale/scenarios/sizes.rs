//! From the start until all types are read.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tokio::time::sleep;

use crate::cluster::{Cluster, Number, name};
use crate::subject::Subject;

/// The cost of a cluster.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    pub objects: u64,
    pub edges: u64,
    pub types: usize,
    pub graph_bytes: f64,
    /// The total length of all names, which the graph stores.
    pub name_bytes: u64,
    pub resident: f64,
    pub peak: f64,
    /// From the start of the process until it is ready.
    pub seconds: f64,
    pub cpu: f64,
    /// The part on the threads of the graph.
    pub graph_cpu: f64,
    /// The length of the lists.
    pub json_bytes: u64,
}

impl Size {
    pub fn bytes_per_object(&self) -> f64 {
        self.graph_bytes / self.objects as f64
    }

    pub fn without_names(&self) -> f64 {
        (self.graph_bytes - self.name_bytes as f64) / self.objects as f64
    }

    /// JSON per second of CPU, including everything.
    pub fn json_per_cpu(&self) -> f64 {
        self.json_bytes as f64 / self.cpu
    }

    /// JSON per second of CPU on all threads except those of the graph, which read and decode.
    pub fn json_per_reading_cpu(&self) -> f64 {
        self.json_bytes as f64 / (self.cpu - self.graph_cpu)
    }
}

/// Waits until everything is read, and measures the cost.
pub async fn size(subject: &Subject) -> Result<Size> {
    let took = subject.synced().await?;
    let cpu = subject.cpu()?;
    subject.seen(None).await?;
    let cluster = subject.feeder.cluster;
    let edges = cluster.edges() + cluster.links();
    let graph = subject.graph(cluster.objects(), Some(edges), cluster.links()).await?;
    // Memory that is returned to the system soon is returned by then.
    sleep(Duration::from_secs(2)).await;
    Ok(Size {
        objects: cluster.objects(),
        edges: cluster.edges(),
        types: cluster.watched(),
        graph_bytes: graph.bytes,
        name_bytes: name_bytes(&cluster),
        resident: subject.resident()?,
        peak: subject.peak()?,
        seconds: took.as_secs_f64(),
        cpu: cpu.all.as_secs_f64(),
        graph_cpu: cpu.graph_seconds()?,
        json_bytes: subject.feeder.listed(),
    })
}

fn name_bytes(cluster: &Cluster) -> u64 {
    let mut text = String::new();
    let mut bytes = 0;
    for number in (0..cluster.end().0).map(Number).filter(|&number| cluster.is_possible(number)) {
        text.clear();
        name(&mut text, cluster, number);
        bytes += text.len() as u64;
    }
    bytes
}
