//! What Linux tells of the threads of a process.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::linux;

/// Time on a processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// Of the whole process.
    pub all: Duration,
    /// Of the threads that carry the graph, if it has any of its own.
    pub graph: Option<Duration>,
}

impl Cpu {
    /// What has been added since an earlier moment.
    pub fn since(self, earlier: Self) -> Self {
        let graph = self.graph.zip(earlier.graph).map(|(later, earlier)| later.saturating_sub(earlier));
        Self { all: self.all.saturating_sub(earlier.all), graph }
    }

    /// Seconds of the threads that carry the graph; an error if it has none of its own.
    pub fn graph_seconds(self) -> Result<f64> {
        let graph = self.graph.context("the threads of the graph are not found by their name")?;
        Ok(graph.as_secs_f64())
    }
}

/// The time that a process has spent on processors.
pub fn cpu(pid: u32) -> Result<Cpu> {
    let mut cpu = Cpu { all: linux::cpu(pid)?, graph: None };
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path();
        // A thread may have ended meanwhile; those of the graph do not.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        // The threads that carry partitions.
        if name.trim() == "graph" {
            let schedule = std::fs::read_to_string(path.join("schedstat"))?;
            let nanoseconds = schedule.split_whitespace().next().and_then(|first| first.parse().ok());
            let nanoseconds = nanoseconds.context("not what schedstat says")?;
            *cpu.graph.get_or_insert_default() += Duration::from_nanos(nanoseconds);
        }
    }
    Ok(cpu)
}
