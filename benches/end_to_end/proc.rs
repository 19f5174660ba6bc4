//! What Linux tells of a process.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// `/proc` counts time in hundredths of a second, on every architecture that this is built
/// for (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

/// The least that [`cpu`] can tell apart.
pub const CPU_STEP: Duration = TICK;

/// How much memory a process has, in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// What it has now (VmRSS).
    pub resident: f64,
    /// The most it has had since its start or [`forget_peak`] (VmHWM).
    pub peak: f64,
}

/// The time on a processor, in user and in kernel mode, of a process with all its threads.
pub fn cpu(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    cpu_of(&stat).with_context(|| format!("not what /proc/PID/stat says: {stat}"))
}

/// The same of this process, with all its children that have ended and been waited for.
pub fn cpu_with_children() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let times = times_of(&stat).context("not what /proc/self/stat should say")?;
    Ok(times.iter().sum())
}

/// The time that all processors were busy with anything, or taken from this system by the
/// one around it.
pub fn cpu_of_all() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    busy_of(&stat).context("not what /proc/stat should say")
}

/// Its memory.
pub fn memory(pid: u32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    memory_of(&status).with_context(|| format!("no memory in /proc/PID/status: {status}"))
}

/// Lets the peak of its memory begin anew, with what it has now.
pub fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .with_context(|| format!("the peak memory of process {pid} cannot be reset"))
}

/// Reads `/proc/PID/stat`: user and kernel mode.
pub fn cpu_of(stat: &str) -> Option<Duration> {
    let [user, system, ..] = times_of(stat)?;
    Some(user + system)
}

/// The name in parentheses may contain anything; utime, stime, cutime and cstime are the 12th
/// field after it and the following.
pub fn times_of(stat: &str) -> Option<[Duration; 4]> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || Some(TICK * fields.next()?.parse::<u32>().ok()?);
    Some([next()?, next()?, next()?, next()?])
}

/// Reads `/proc/stat`: user, nice, system, (not idle, not iowait,) irq, softirq, steal.
pub fn busy_of(stat: &str) -> Option<Duration> {
    let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Option<Vec<u64>> = fields.split_whitespace().map(|field| field.parse().ok()).collect();
    let ticks = ticks?;
    let busy: u64 = ticks.iter().take(8).sum::<u64>().checked_sub(ticks.get(3)? + ticks.get(4)?)?;
    Some(Duration::from_millis(busy * 10))
}

/// Reads `/proc/PID/status`.
pub fn memory_of(status: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib / 1024.0)
    };
    Some(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}
