//! When somebody is at rest.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

/// How long one look takes.
const INTERVAL: Duration = Duration::from_millis(150);
/// So many in a row are to show rest.
const INTERVALS: u32 = 3;

/// Waits until a processor time has not grown by more than this in each of three intervals of
/// 150 ms.
///
/// # Errors
///
/// It cannot be read, or that takes longer than the deadline.
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
