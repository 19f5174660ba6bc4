//! Coalesces the wakeups of a thread that is woken all the time.
//!
//! Waking a thread for an event takes several times as long as handling the event. When ten
//! thousand events arrive in a second, one by one, a thread that sleeps for eight milliseconds
//! finds eighty of them, across all watches. When few events arrive, the thread does not sleep.
//!
//! Use this only for a thread that nobody waits for: no requests about objects, no decisions,
//! no pages.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a thread sleeps. An event waits for half of this on average.
const SLEEP: Duration = Duration::from_millis(8);

/// A wakeup is soon if it comes within this time after the thread has parked.
const SOON: Duration = Duration::from_millis(2);

/// This many soon wakeups in a row make a thread sleep.
const SOON_WAKEUPS: u32 = 16;

/// A thread that worked for this long does not sleep: there may be more to do.
const LONG_WORK: Duration = Duration::from_millis(2);

thread_local! {
    static PACE: Cell<WakeupRate> = const { Cell::new(WakeupRate::NEW) };
}

/// Call it when a thread is unparked.
pub fn thread_unparks() {
    let mut pace = PACE.get();
    pace.unparks(Instant::now());
    PACE.set(pace);
}

/// Call it when a thread parks. Sleeps if the thread is woken all the time.
pub fn thread_parks() {
    let mut pace = PACE.get();
    if pace.parks(Instant::now()) {
        std::thread::sleep(SLEEP);
        pace.slept(Instant::now());
    }
    PACE.set(pace);
}

/// The recent wakeups of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WakeupRate {
    parked: Option<Instant>,
    unparked: Option<Instant>,
    /// Soon wakeups in a row.
    in_a_row: u32,
}

impl WakeupRate {
    const NEW: Self = Self { parked: None, unparked: None, in_a_row: 0 };

    fn unparks(&mut self, now: Instant) {
        let is_soon = self.parked.is_some_and(|parked| now.duration_since(parked) < SOON);
        self.in_a_row = if is_soon { self.in_a_row.saturating_add(1) } else { 0 };
        self.unparked = Some(now);
    }

    /// Returns whether the thread should sleep.
    fn parks(&mut self, now: Instant) -> bool {
        let worked_briefly = self.unparked.is_some_and(|unparked| now.duration_since(unparked) < LONG_WORK);
        self.parked = Some(now);
        worked_briefly && self.in_a_row >= SOON_WAKEUPS
    }

    fn slept(&mut self, now: Instant) {
        self.parked = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a thread sleeps after this number of wakeups, each after this sleep and before this
    /// work.
    fn sleeps(times: u32, asleep: Duration, awake: Duration) -> bool {
        let mut pace = WakeupRate::NEW;
        let mut now = Instant::now();
        let mut sleeps = pace.parks(now);
        for _ in 0..times {
            now += asleep;
            pace.unparks(now);
            now += awake;
            sleeps = pace.parks(now);
        }
        sleeps
    }

    const SHORT_WORK: Duration = Duration::from_micros(20);

    #[test]
    fn a_thread_with_many_wakeups_sleeps() {
        assert!(sleeps(SOON_WAKEUPS, Duration::from_micros(100), SHORT_WORK));
        assert!(!sleeps(SOON_WAKEUPS - 1, Duration::from_micros(100), SHORT_WORK));
    }

    #[test]
    fn a_thread_with_few_wakeups_does_not_sleep() {
        assert!(!sleeps(1000, SOON, SHORT_WORK));
    }

    #[test]
    fn a_thread_with_much_work_does_not_sleep() {
        assert!(!sleeps(1000, Duration::from_micros(100), LONG_WORK));
    }

    #[test]
    fn a_thread_sleeps_until_a_wakeup_is_late() {
        let mut pace = WakeupRate::NEW;
        let mut now = Instant::now();
        for _ in 0..SOON_WAKEUPS {
            pace.parks(now);
            pace.unparks(now);
        }
        for _ in 0..10 {
            assert!(pace.parks(now));
            now += SLEEP;
            pace.slept(now);
            pace.unparks(now);
            now += SHORT_WORK;
        }
        pace.parks(now);
        pace.unparks(now + SOON);
        assert!(!pace.parks(now + SOON), "stops at the first late wakeup");
    }
}
