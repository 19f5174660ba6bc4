//! The clock that leases are measured on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment on a [`Clock`]. Moments of different clocks have nothing to do with
/// each other.
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

    /// How long it is until then; nothing if it is over.
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

/// Tells the time for leases. It never goes back, and nobody can set it.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The time since the machine was started, its suspends included: a lease runs
    /// out while its holder's machine sleeps. The usual monotonic clock would stand
    /// still meanwhile, and the holder would wake up believing in its lease.
    #[default]
    Boot,
    /// The time of the asynchronous runtime since this instant, which tests can pause.
    Runtime(tokio::time::Instant),
}

impl Clock {
    /// Begins a clock that stands still when the runtime's time does.
    #[must_use]
    pub fn runtime() -> Self {
        Self::Runtime(tokio::time::Instant::now())
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Moment {
        match self {
            Self::Boot => Moment(since_boot()),
            Self::Runtime(origin) => Moment(origin.elapsed()),
        }
    }
}

fn since_boot() -> Duration {
    // Elsewhere the monotonic clock is as near as there is.
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    // Neither part is ever negative: the origin is the machine's start.
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_machine_goes_forward() {
        let clock = Clock::default();
        let (before, then) = (clock.now(), std::time::Instant::now());
        while then.elapsed() < Duration::from_millis(2) {}
        let after = clock.now();
        assert!(before > Moment::default() && before.until(after) >= Duration::from_millis(2));
        assert_eq!(after.until(before), Duration::ZERO, "what is over does not count");
    }
}
