//! The machine of the measurements, and rest.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

/// Number and model of the processors.
pub fn processors() -> Result<String> {
    let count = std::thread::available_parallelism()?;
    let info = std::fs::read_to_string("/proc/cpuinfo")?;
    // Some architectures do not name the model.
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(format!("{count} × {}", model.map_or(std::env::consts::ARCH, |(_, model)| model)))
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
