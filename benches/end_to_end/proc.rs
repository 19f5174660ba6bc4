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

/// The name in parentheses may contain anything; utime and stime are the 12th and the 13th
/// field after it.
pub fn cpu_of(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * user.checked_add(system)?)
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
