//! The mailbox's clock, which is its caller's.

use std::ops::Add;
use std::time::Duration;

/// In a millisecond.
const MICROS: u64 = 1000;

/// A point in time on some steady clock, in microseconds since an origin that
/// the caller chooses. The mailbox has no clock of its own, which is what makes
/// it testable and lets a simulation pause time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    pub const ZERO: Self = Self(0);

    /// So long after the origin; what is finer than a microsecond is dropped.
    #[must_use]
    pub fn from_origin(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
    }

    /// So many milliseconds after the origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(MICROS))
    }

    /// So many microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / MICROS
    }

    /// How long after the origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// How long after `earlier`; zero if it was not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Rounds up to the next millisecond, which is as fine as delays are kept, so that
    /// nothing is due too early; and stops at the end of time.
    fn add(self, delay: Duration) -> Self {
        let micros = u64::try_from(delay.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        let millis = self.0.saturating_add(micros).div_ceil(MICROS);
        Self(millis.saturating_mul(MICROS))
    }
}
