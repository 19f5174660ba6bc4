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
    // The name in parentheses may contain anything. utime and stime are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(')').context("not what /proc/PID/stat should say")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    Ok(TICK * ticks.sum::<Result<u32, _>>()?)
}

/// The memory of a process.
pub fn memory(pid: u32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib =
            line.and_then(|line| line.trim().strip_suffix(" kB")).with_context(|| format!("no {name}"))?;
        anyhow::Ok(kib.parse::<f64>()? / 1024.0)
    };
    Ok(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}

/// Resets the peak of a process to its present memory.
pub fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .with_context(|| format!("the peak memory of process {pid} cannot be reset"))
}
