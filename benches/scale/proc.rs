//! Reads the CPU time of a process and its threads from `/proc`.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::linux;

/// CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// The CPU time of the whole process.
    pub all: Duration,
    /// The CPU time of the threads of the graph, if it has its own.
    pub graph: Option<Duration>,
}

impl Cpu {
    /// The difference to an earlier moment.
    pub fn since(self, earlier: Self) -> Self {
        let graph = self.graph.zip(earlier.graph).map(|(later, earlier)| later.saturating_sub(earlier));
        Self { all: self.all.saturating_sub(earlier.all), graph }
    }

    /// The seconds of the threads of the graph. Fails if it has none of its own.
    pub fn graph_seconds(self) -> Result<f64> {
        let graph = self.graph.context("the threads of the graph are not found by their name")?;
        Ok(graph.as_secs_f64())
    }
}

/// The CPU time of a process.
pub fn cpu(pid: u32) -> Result<Cpu> {
    let mut cpu = Cpu { all: linux::cpu(pid)?, graph: None };
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path();
        // A thread may have ended in the meantime. Those of the graph do not end.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        // The threads of the partitions.
        if name.trim() == "graph" {
            let schedule = std::fs::read_to_string(path.join("schedstat"))?;
            let nanoseconds = schedule.split_whitespace().next().and_then(|first| first.parse().ok());
            let nanoseconds = nanoseconds.context("not what schedstat says")?;
            *cpu.graph.get_or_insert_default() += Duration::from_nanos(nanoseconds);
        }
    }
    Ok(cpu)
}
