//! The mailbox's clock, which is its caller's.

use std::ops::Add;
use std::time::Duration;

/// A point in time on some steady clock, in milliseconds since an origin that
/// the caller chooses. The mailbox has no clock of its own, which is what makes
/// it testable and lets a simulation pause time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// So long after the origin; what is finer than a millisecond is dropped.
    #[must_use]
    pub fn from_origin(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }

    /// So many milliseconds after the origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long after the origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// How long after `earlier`; zero if it was not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Rounds up, so that nothing is due too early, and stops at the end of time.
    fn add(self, delay: Duration) -> Self {
        let millis = delay.as_nanos().div_ceil(1_000_000);
        Self(self.0.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)))
    }
}
