//! The intervals at which the end of a cascade is checked.

use std::time::Duration;

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest interval.
const LONGEST: Duration = Duration::from_millis(500);

/// The next interval. At most a quarter of the elapsed time, because the speed at the beginning
/// says little.
pub fn next_look(elapsed: Duration, size: u64, left: u64) -> Duration {
    let done = size.saturating_sub(left);
    if done == 0 {
        return SHORTEST * 4;
    }
    // A float represents such counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let rest = elapsed.mul_f64(left as f64 / done as f64);
    rest.mul_f64(0.7).min(elapsed / 4).clamp(SHORTEST, LONGEST)
}
