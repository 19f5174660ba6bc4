//! The clock that leases are measured on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment on a [`Clock`]. Moments of different clocks cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The moment this long after the clock's origin.
    #[must_use]
    pub const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the clock's origin it is.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The time until a later moment; zero if that is past.
    #[must_use]
    pub const fn until(self, then: Self) -> Duration {
        then.0.saturating_sub(self.0)
    }

    /// The moment this much later.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// A monotonic clock for leases. It cannot be set.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The time since boot, including suspends: a lease expires while its holder's machine
    /// sleeps. The usual monotonic clock stops during that time, and the holder would wake up with a
    /// lease that seems valid.
    #[default]
    Boot,
    /// The time of the tokio runtime since this instant. Tests can pause it.
    #[cfg_attr(not(any(test, feature = "internals")), expect(dead_code, reason = "for tests"))]
    Runtime(tokio::time::Instant),
}

impl Clock {
    /// A clock that begins now and stops when the runtime's time is paused.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn runtime() -> Self {
        Self::Runtime(tokio::time::Instant::now())
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        match self {
            Self::Boot => Moment(since_boot()),
            Self::Runtime(origin) => Moment(origin.elapsed()),
        }
    }
}

fn since_boot() -> Duration {
    // Other systems have no closer equivalent than the monotonic clock.
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    // Never negative: the origin is the boot.
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_goes_forward() {
        let clock = Clock::default();
        let (before, then) = (clock.now(), std::time::Instant::now());
        while then.elapsed() < Duration::from_millis(2) {}
        let after = clock.now();
        assert!(before > Moment::default() && before.until(after) >= Duration::from_millis(2));
        assert_eq!(after.until(before), Duration::ZERO, "what is over does not count");
    }
}
