//! Moments, as the container runtime counts them.

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
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// From seconds since 1970.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since 1970.
    #[must_use]
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whether the runtime knows the moment.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.0 > 0
    }

    /// How long this is ago: nothing if it is still to come.
    #[must_use]
    pub fn age(self, now: Self) -> Option<Duration> {
        let nanos = i128::from(now.0) - i128::from(self.0);
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// Whether this is at least so long ago. What is still to come never is.
    #[must_use]
    pub fn is_older_than(self, age: Duration, now: Self) -> bool {
        self.age(now).is_some_and(|actual| actual >= age)
    }

    /// This much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// This much earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

/// A duration in words, in whole seconds from a minute on.
pub(crate) fn words(duration: Duration) -> humantime::FormattedDuration {
    let shown = if duration.as_secs() >= 60 { Duration::from_secs(duration.as_secs()) } else { duration };
    humantime::format_duration(shown)
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
