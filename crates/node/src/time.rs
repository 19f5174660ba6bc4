//! Moments, and what the clocks of a host say of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds since 1970, as in the messages of a container runtime.
///
/// The runtime may send any number. Zero and less means that it does not know the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From nanoseconds since 1970.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// From seconds since 1970.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since 1970.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whether the runtime knows the moment.
    pub const fn is_known(self) -> bool {
        self.0 > 0
    }

    /// How long this is ago: nothing if it is still to come.
    pub fn age(self, now: Self) -> Option<Duration> {
        let nanos = i128::from(now.0) - i128::from(self.0);
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// Whether this is at least so long ago. What is still to come never is.
    pub fn is_older_than(self, age: Duration, now: Self) -> bool {
        self.age(now).is_some_and(|actual| actual >= age)
    }

    /// This much later.
    pub fn plus(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// This much earlier.
    pub fn minus(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

/// The time by two clocks, read at the same moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time of day. Anybody may set this clock.
    pub wall: Timestamp,
    /// Which boot of the host this is, by `/proc/sys/kernel/random/boot_id`; nothing if that cannot be read.
    pub boot: Option<String>,
    /// How long ago it was, by `CLOCK_BOOTTIME`: nobody can set this clock, and it goes on while the host sleeps.
    pub uptime: Duration,
}

/// The time of day, and for how long nobody has set it forward: nothing is known to be older than that.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time of day.
    pub now: Timestamp,
    /// How long the clock has not been set forward.
    pub steady: Duration,
}

impl Clock {
    /// Whether this is certainly so long ago.
    pub fn is_past(self, moment: Timestamp, age: Duration) -> bool {
        self.steady >= age && moment.is_older_than(age, self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_survive_extreme_moments() {
        let now = Timestamp::from_secs(1000);
        assert_eq!(Timestamp::from_secs(400).age(now), Some(Duration::from_secs(600)));
        assert_eq!(Timestamp::from_secs(1001).age(now), None);
        assert_eq!(Timestamp::from_nanos(i64::MAX).age(now), None);
        assert!(Timestamp::from_nanos(i64::MIN).age(Timestamp::from_nanos(i64::MAX)).is_some());
        assert!(!Timestamp::from_nanos(i64::MAX).is_older_than(Duration::ZERO, now));
        assert_eq!(now.plus(Duration::MAX), Timestamp::from_nanos(i64::MAX));
    }
}
