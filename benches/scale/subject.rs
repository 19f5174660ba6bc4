//! kube-gc as it is released, connected to a feeder.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::time::sleep;

use crate::cluster::{Cluster, Type};
use crate::feeder::{Feeder, WatchEncoding};
use crate::kube_gc;
use crate::linux::memory;
use crate::proc::{Cpu, cpu};
use kube_gc_testkit::Collector;

/// The interval at which a condition is checked.
const POLL: Duration = Duration::from_millis(100);
/// The time limit of every wait.
const LONGEST: Duration = Duration::from_secs(1800);

const MIB: f64 = 1024.0 * 1024.0;

/// A collector and its feeder.
pub struct Subject {
    pub feeder: Arc<Feeder>,
    pub collector: Collector,
    started: Instant,
    kubeconfig: tempfile::NamedTempFile,
}

/// The numbers of its graph that the program reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Graph {
    pub nodes: f64,
    pub edges: f64,
    pub bytes: f64,
}

/// Its settings. All others have their defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// The encoding of watches.
    pub watch_encoding: WatchEncoding,
    /// The partitions of the graph; `None` for the default.
    pub partitions: Option<u16>,
    /// The threads of the graph.
    pub graph: GraphThreads,
}

/// The threads of the graph.
#[derive(Clone, Copy, Debug, Default)]
pub enum GraphThreads {
    /// As by default.
    #[default]
    Default,
    /// Its own threads on any machine, so that their CPU time can be measured separately.
    Own,
}

impl Subject {
    /// Starts a feeder and a collector.
    pub async fn start(program: &Path, cluster: Cluster, setup: Setup) -> Result<Self> {
        let feeder = Feeder::start(cluster, setup.watch_encoding).await?;
        let kubeconfig = tempfile::NamedTempFile::new()?;
        std::fs::write(&kubeconfig, feeder.kubeconfig())?;
        let mut command = kube_gc::command(program, kubeconfig.path());
        match setup.graph {
            GraphThreads::Default => {}
            GraphThreads::Own => {
                command.env("KUBE_GC__GRAPH__THREADS", "own");
            }
        }
        if let Some(partitions) = setup.partitions {
            command.env("KUBE_GC__GRAPH__PARTITIONS", partitions.to_string());
        }
        let started = Instant::now();
        let collector = Collector::spawn(command, None).await?;
        Ok(Self { feeder, collector, started, kubeconfig })
    }

    /// The file with the address of the feeder.
    #[allow(dead_code, reason = "for benchmarks that run commands")]
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Waits until it has read all types, and returns how long that took since its start.
    pub async fn synced(&self) -> Result<Duration> {
        loop {
            // A busy machine may not let it answer within its own time limit.
            let answer = self.collector.get("/readyz").await;
            if answer.as_ref().is_ok_and(|answer| answer.status == 200) {
                break;
            }
            ensure!(self.started.elapsed() < LONGEST, "not ready after {LONGEST:?}: {answer:?}");
            sleep(Duration::from_millis(10)).await;
        }
        let took = self.started.elapsed();
        let late = self.collector.logged("\"level\":\"WARN\"");
        ensure!(late.is_empty(), "it warns: {late:?}");
        Ok(took)
    }

    /// Waits until it has seen an event and has no work left.
    pub async fn seen(&self, last: Option<(Type, u64)>) -> Result<()> {
        let mut path = "/debug/idle".to_owned();
        if let Some((resource, version)) = last {
            let called = resource.called();
            let dot = if called.group.is_empty() { "" } else { "." };
            path += &format!("?seen={}{dot}{}={version}", called.plural, called.group);
        }
        let began = Instant::now();
        loop {
            let answer = self.collector.get_debug(&path).await?;
            if answer.status == 200 {
                return self.feeder.understood_all();
            }
            if began.elapsed() > LONGEST {
                bail!("not idle after {LONGEST:?}: {}", answer.body);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The numbers of its graph, once it has this many objects, references (if known) and links
    /// between partitions.
    pub async fn graph(&self, objects: u64, edges: Option<u64>, links: u64) -> Result<Graph> {
        let nodes = objects + 2 * links;
        let began = Instant::now();
        loop {
            let graph = Graph {
                nodes: self.collector.metric("kube_gc_graph_nodes").await?,
                edges: self.collector.metric("kube_gc_graph_edges").await?,
                bytes: self.collector.metric("kube_gc_graph_bytes").await?,
            };
            // The metrics are updated one after the other.
            if graph.nodes == nodes as f64 && edges.is_none_or(|edges| graph.edges == edges as f64) {
                return Ok(graph);
            }
            ensure!(
                began.elapsed() < Duration::from_secs(30),
                "not {nodes} nodes and {edges:?} edges, but {graph:?}"
            );
            sleep(POLL).await;
        }
    }

    /// The present size of its graph.
    pub async fn graph_bytes(&self) -> Result<f64> {
        self.collector.metric("kube_gc_graph_bytes").await
    }

    /// Its CPU time.
    pub fn cpu(&self) -> Result<Cpu> {
        cpu(self.collector.pid())
    }

    /// Its resident memory in bytes.
    pub fn resident(&self) -> Result<f64> {
        Ok(memory(self.collector.pid())?.resident * MIB)
    }

    /// The peak of its resident memory.
    pub fn peak(&self) -> Result<f64> {
        Ok(memory(self.collector.pid())?.peak * MIB)
    }

    /// Stops it. Fails if it does not end cleanly.
    pub async fn stop(self) -> Result<()> {
        self.feeder.understood_all()?;
        self.collector.stop().await
    }
}
