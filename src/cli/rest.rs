//! When a thread that is woken all the time rests, so that more has come when it wakes.
//!
//! To be woken for an event takes a thread several times as long as to deal with it. Where
//! ten thousand come in a second, one by one, a thread that sleeps for eight milliseconds
//! finds eighty, whichever watches they are of; where few come, none waits.
//!
//! Only for a thread that nothing runs on that somebody waits for: no request about an
//! object, no decision, no page.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a thread rests. An event waits for half of that, in the mean.
const REST: Duration = Duration::from_millis(8);

/// A thread is woken all the time if it is again within this, …
const SOON: Duration = Duration::from_millis(2);

/// … so often in a row.
const OFTEN: u32 = 16;

/// It does not rest after it had this much to do: there may be more.
const LITTLE: Duration = Duration::from_millis(2);

thread_local! {
    static PACE: Cell<Pace> = const { Cell::new(Pace::NEW) };
}

/// To be called when a thread has been woken.
pub fn thread_wakes() {
    let mut pace = PACE.get();
    pace.wakes(Instant::now());
    PACE.set(pace);
}

/// To be called when a thread has nothing to do: rests, if it is woken all the time.
pub fn thread_parks() {
    let mut pace = PACE.get();
    if pace.parks(Instant::now()) {
        std::thread::sleep(REST);
        pace.rested(Instant::now());
    }
    PACE.set(pace);
}

/// How often a thread is woken, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    /// When it had nothing to do, the last time.
    parked: Option<Instant>,
    woken: Option<Instant>,
    /// How often in a row it was woken soon.
    in_a_row: u32,
}

impl Pace {
    const NEW: Self = Self { parked: None, woken: None, in_a_row: 0 };

    fn wakes(&mut self, now: Instant) {
        let is_soon = self.parked.is_some_and(|parked| now.duration_since(parked) < SOON);
        self.in_a_row = if is_soon { self.in_a_row.saturating_add(1) } else { 0 };
        self.woken = Some(now);
    }

    /// Whether it is to rest.
    fn parks(&mut self, now: Instant) -> bool {
        let had_little = self.woken.is_some_and(|woken| now.duration_since(woken) < LITTLE);
        self.parked = Some(now);
        had_little && self.in_a_row >= OFTEN
    }

    fn rested(&mut self, now: Instant) {
        self.parked = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a thread rests that is woken so often, each time after this, for this long.
    fn rests(times: u32, asleep: Duration, awake: Duration) -> bool {
        let mut pace = Pace::NEW;
        let mut now = Instant::now();
        let mut rests = pace.parks(now);
        for _ in 0..times {
            now += asleep;
            pace.wakes(now);
            now += awake;
            rests = pace.parks(now);
        }
        rests
    }

    const LITTLE_WORK: Duration = Duration::from_micros(20);

    #[test]
    fn a_thread_rests_that_is_woken_all_the_time() {
        assert!(rests(OFTEN, Duration::from_micros(100), LITTLE_WORK));
        assert!(!rests(OFTEN - 1, Duration::from_micros(100), LITTLE_WORK));
    }

    #[test]
    fn nobody_waits_where_little_comes() {
        assert!(!rests(1000, SOON, LITTLE_WORK));
    }

    #[test]
    fn who_has_much_to_do_goes_on() {
        assert!(!rests(1000, Duration::from_micros(100), LITTLE));
    }

    #[test]
    fn it_rests_again_as_long_as_something_is_there_whenever_it_wakes() {
        let mut pace = Pace::NEW;
        let mut now = Instant::now();
        for _ in 0..OFTEN {
            pace.parks(now);
            pace.wakes(now);
        }
        for _ in 0..10 {
            assert!(pace.parks(now));
            now += REST;
            pace.rested(now);
            pace.wakes(now);
            now += LITTLE_WORK;
        }
        pace.parks(now);
        pace.wakes(now + SOON);
        assert!(!pace.parks(now + SOON), "at once when less comes");
    }
}
