//! Points in time on the caller's clock.

use std::ops::Add;
use std::time::Duration;

/// Microseconds in a millisecond.
const MICROS: u64 = 1000;

/// A point in time on a monotonic clock, in microseconds since an origin that the caller chooses.
/// The mailbox has no clock of its own, so that tests and simulations control the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    pub const ZERO: Self = Self(0);

    /// Rounds down to a microsecond.
    pub fn from_origin(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(MICROS))
    }

    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Rounds down to a millisecond.
    pub const fn as_millis(self) -> u64 {
        self.0 / MICROS
    }

    pub const fn since_origin(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Rounds up to the next millisecond, the resolution of timers, so that nothing is due too early.
    /// Keys that are due in the same millisecond share an entry among the delays. Saturates.
    fn add(self, delay: Duration) -> Self {
        let micros = u64::try_from(delay.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        let millis = self.0.saturating_add(micros).div_ceil(MICROS);
        Self(millis.saturating_mul(MICROS))
    }
}
