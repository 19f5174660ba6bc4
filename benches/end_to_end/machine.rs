//! What the figures were measured on.

use anyhow::{Context as _, Result};

/// Number and model of the processors.
pub fn processors() -> Result<String> {
    let count = std::thread::available_parallelism()?;
    let info = std::fs::read_to_string("/proc/cpuinfo")?;
    // Not every architecture names its model.
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(format!("{count} × {}", model.map_or(std::env::consts::ARCH, |(_, model)| model)))
}

/// The memory of the system.
pub fn memory_mib() -> Result<u64> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    Ok(total.context("no MemTotal in /proc/meminfo")?.parse::<u64>()? / 1024)
}

/// How much the system had to do in the last 1, 5 and 15 minutes.
pub fn load() -> Result<String> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    Ok(load.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}
