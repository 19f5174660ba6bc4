//! What Linux tells of the threads of a process.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::linux;

/// Time on a processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// Of the whole process.
    pub all: Duration,
    /// Of the threads that carry the graph.
    pub graph: Duration,
}

impl Cpu {
    /// What has been added since an earlier moment.
    pub fn since(self, earlier: Self) -> Self {
        Self { all: self.all.saturating_sub(earlier.all), graph: self.graph.saturating_sub(earlier.graph) }
    }
}

/// The time that a process has spent on processors.
pub fn cpu(pid: u32) -> Result<Cpu> {
    let mut cpu = Cpu { all: linux::cpu(pid)?, graph: Duration::ZERO };
    let mut found = false;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path();
        // A thread may have ended meanwhile; those of the graph do not.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        // actix's name for threads of its own: only the partitions have any.
        if name.starts_with("actix-rt|") {
            found = true;
            let schedule = std::fs::read_to_string(path.join("schedstat"))?;
            let nanoseconds = schedule.split_whitespace().next().and_then(|first| first.parse().ok());
            cpu.graph += Duration::from_nanos(nanoseconds.context("not what schedstat says")?);
        }
    }
    ensure!(found, "the threads of the graph are not found by their name");
    Ok(cpu)
}
