//! Reads `/proc` of Linux.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// The unit of CPU time in `/proc` (USER_HZ), on every supported architecture.
const TICK: Duration = Duration::from_millis(10);

/// The resolution of [`cpu`].
pub const CPU_STEP: Duration = TICK;

/// The memory of a process, in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// The resident memory (VmRSS).
    pub resident: f64,
    /// The peak since the start or [`forget_peak`] (VmHWM).
    pub peak: f64,
}

/// The CPU time of a process with all its threads, user and system.
pub fn cpu(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    cpu_of(&stat).with_context(|| format!("not what /proc/PID/stat says: {stat}"))
}

/// The CPU time of this process, including its children that have ended.
pub fn cpu_with_children() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let times = times_of(&stat).context("not what /proc/self/stat should say")?;
    Ok(times.iter().sum())
}

/// The time that all processors were busy, including the time that a hypervisor took.
pub fn cpu_of_all() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    busy_of(&stat).context("not what /proc/stat should say")
}

/// The memory of a process.
pub fn memory(pid: u32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    memory_of(&status).with_context(|| format!("no memory in /proc/PID/status: {status}"))
}

/// Resets the peak of a process to its present memory.
pub fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .with_context(|| format!("the peak memory of process {pid} cannot be reset"))
}

/// Parses `/proc/PID/stat`: user and system time.
pub fn cpu_of(stat: &str) -> Option<Duration> {
    let [user, system, ..] = times_of(stat)?;
    Some(user + system)
}

/// The name in parentheses may contain anything. utime, stime, cutime and cstime are the 12th to
/// 15th field after it.
pub fn times_of(stat: &str) -> Option<[Duration; 4]> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || Some(TICK * fields.next()?.parse::<u32>().ok()?);
    Some([next()?, next()?, next()?, next()?])
}

/// Parses `/proc/stat`: user, nice, system, irq, softirq, steal (without idle and iowait).
pub fn busy_of(stat: &str) -> Option<Duration> {
    let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Option<Vec<u64>> = fields.split_whitespace().map(|field| field.parse().ok()).collect();
    let ticks = ticks?;
    let busy: u64 = ticks.iter().take(8).sum::<u64>().checked_sub(ticks.get(3)? + ticks.get(4)?)?;
    Some(Duration::from_millis(busy * 10))
}

/// Parses `/proc/PID/status`.
pub fn memory_of(status: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib / 1024.0)
    };
    Some(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}
