//! The machine of the measurements, other load on it, and rest.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::time::sleep;

use crate::proc;

/// Number and model of the processors.
pub fn processors() -> Result<String> {
    let count = std::thread::available_parallelism()?;
    let info = std::fs::read_to_string("/proc/cpuinfo")?;
    // Some architectures do not name the model.
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(format!("{count} × {}", model.map_or(std::env::consts::ARCH, |(_, model)| model)))
}

/// The memory of the system.
pub fn memory_mib() -> Result<u64> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    Ok(total.context("no MemTotal in /proc/meminfo")?.parse::<u64>()? / 1024)
}

/// Measures the share of the machine that other processes use.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    begun: Instant,
    taken: Duration,
}

impl Others {
    /// Starts now. Our own processes are this one, its children, and these.
    pub fn begin(ours: &[u32]) -> Result<Self> {
        Ok(Self { begun: Instant::now(), taken: taken_by_others(ours)? })
    }

    /// The share of all processors that others used since then, of 1. Children must have ended.
    pub fn end(self, ours: &[u32]) -> Result<f64> {
        let taken = taken_by_others(ours)?.saturating_sub(self.taken);
        let processors = u32::try_from(std::thread::available_parallelism()?.get())?;
        Ok(taken.as_secs_f64() / (self.begun.elapsed() * processors).as_secs_f64())
    }
}

fn taken_by_others(ours: &[u32]) -> Result<Duration> {
    let mut own = proc::cpu_with_children()?;
    for pid in ours {
        own += proc::cpu(*pid)?;
    }
    Ok(proc::cpu_of_all()?.saturating_sub(own))
}

/// The length of an interval.
const INTERVAL: Duration = Duration::from_millis(150);
/// How many idle intervals in a row mean rest.
const INTERVALS: u32 = 3;

/// Waits until a CPU time has grown by no more than this in each of three intervals of 150 ms.
///
/// # Errors
///
/// The CPU time cannot be read, or the deadline has passed.
pub async fn at_rest(cpu: impl Fn() -> Result<Duration>, most: Duration, deadline: Duration) -> Result<()> {
    let begun = Instant::now();
    let mut before = cpu()?;
    let mut quiet = 0;
    while quiet < INTERVALS {
        ensure!(begun.elapsed() < deadline, "not in {} s", deadline.as_secs());
        sleep(INTERVAL).await;
        let now = cpu()?;
        quiet = if now.saturating_sub(before) <= most { quiet + 1 } else { 0 };
        before = now;
    }
    Ok(())
}
