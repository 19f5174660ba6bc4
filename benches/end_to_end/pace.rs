//! How often to look whether something is over.

use std::time::Duration;

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest.
const LONGEST: Duration = Duration::from_millis(500);

/// How long to wait before looking again: at most a quarter of what has passed, for the speed
/// of a beginning says little.
pub fn next_look(elapsed: Duration, size: u64, left: u64) -> Duration {
    let done = size.saturating_sub(left);
    if done == 0 {
        return SHORTEST * 4;
    }
    // Counts; far below what a float holds exactly.
    #[allow(clippy::cast_precision_loss)]
    let rest = elapsed.mul_f64(left as f64 / done as f64);
    rest.mul_f64(0.7).min(elapsed / 4).clamp(SHORTEST, LONGEST)
}
