//! How many requests may be in flight to one server: additive increase, multiplicative
//! decrease.
//!
//! Plain data: no clock, no waiting. The limit works like TCP's congestion window. It
//! doubles with each round trip until the first rejection (slow start). After that it grows
//! by one per round trip and is halved by a rejection. The limit also remembers where it was
//! rejected last and takes that step slowly. Without this, a server that can handle a single
//! request would reject one of every three requests.
//!
//! Many concurrent DELETEs cost the API server and etcd less CPU each (docs/benchmarks.md
//! has figures). But each needs its own connection with a TLS handshake, and a small cascade
//! should not pay for that. This is why the limit does not start at its maximum.

use std::time::Duration;

/// The initial limit: as many as the built-in collector has in flight
/// (`--concurrent-gc-syncs`).
pub const START: usize = 20;
/// The greatest limit. It exceeds what can be configured (1000 delete workers and 1000
/// concurrent releases), so a server that never rejects is never held back.
pub const CEILING: usize = 1 << 16;
/// The step up to the limit of the last rejection takes this many times the usual number
/// of successes.
const PATIENCE: usize = 16;
/// The pause after a single request in flight was rejected.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const GREATEST_PAUSE: Duration = Duration::from_secs(1);

/// What the end of a request says about the server's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The server handled the request, whatever the result.
    Served,
    /// The server has too much to do.
    Rejected,
    /// Nothing: the request was not sent, got no answer, or failed.
    Ignored,
}

/// How the limit changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// It did not.
    Unchanged,
    /// It grew by one.
    Increased,
    /// It was halved.
    Decreased,
    /// Even one request at a time is too much: send nothing for this long.
    Paused(Duration),
}

/// When a request began, counted in rejections that took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(u64);

/// An AIMD limit and the number of requests in flight.
#[derive(Clone, Debug)]
pub struct Aimd {
    limit: usize,
    ceiling: usize,
    in_flight: usize,
    /// The number of rejections that took effect.
    epoch: u64,
    /// Requests served since the last change while the limit was reached.
    served: usize,
    /// The limit at the last rejection; `None` once the limit has grown beyond it.
    rejected_at: Option<usize>,
    /// The last pause, if nothing was served since.
    pause: Duration,
}

impl Aimd {
    pub const fn new(ceiling: usize) -> Self {
        Self {
            limit: if ceiling < START { ceiling } else { START },
            ceiling,
            in_flight: 0,
            epoch: 0,
            served: 0,
            rejected_at: None,
            pause: Duration::ZERO,
        }
    }

    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Whether one more request may begin.
    pub const fn has_room(&self) -> bool {
        self.in_flight < self.limit
    }

    /// Takes a slot for one more request.
    pub const fn acquire(&mut self) -> Epoch {
        self.in_flight += 1;
        Epoch(self.epoch)
    }

    /// The epoch of a request that has a slot and is sent only now.
    pub const fn current_epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// Gives a slot back, whether or not the end of its request was recorded.
    pub const fn release(&mut self) {
        debug_assert!(self.in_flight > 0, "a slot is acquired before it is released");
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Adjusts the limit to the end of a request, ideally before the request releases its
    /// slot. `has_waiters` says whether other requests wait for a slot.
    ///
    /// A request that was sent before the last rejection says nothing new: it met the same
    /// load.
    pub fn record(&mut self, epoch: Epoch, signal: Signal, has_waiters: bool) -> Adjustment {
        let is_current = epoch.0 == self.epoch;
        match signal {
            Signal::Ignored => Adjustment::Unchanged,
            Signal::Served => {
                self.pause = Duration::ZERO;
                // Only a limit that is reached shows whether the server can take more.
                if is_current && !self.has_room() { self.served() } else { Adjustment::Unchanged }
            }
            Signal::Rejected if is_current => self.rejected(has_waiters),
            Signal::Rejected => Adjustment::Unchanged,
        }
    }

    fn served(&mut self) -> Adjustment {
        self.served += 1;
        let next = self.limit + 1;
        let needed = match self.rejected_at {
            _ if self.epoch == 0 => 1,
            Some(rejected_at) if rejected_at == next => self.limit * PATIENCE,
            Some(_) | None => self.limit,
        };
        if self.served < needed || next > self.ceiling {
            return Adjustment::Unchanged;
        }
        self.limit = next;
        self.served = 0;
        self.rejected_at = self.rejected_at.filter(|rejected_at| *rejected_at >= next);
        Adjustment::Increased
    }

    fn rejected(&mut self, has_waiters: bool) -> Adjustment {
        self.epoch += 1;
        self.served = 0;
        // If the limit was not reached, what was in flight is halved.
        let load = self.limit.min(self.in_flight.max(1));
        self.rejected_at = Some(load);
        if self.limit > 1 {
            self.limit = (load / 2).max(1);
            return Adjustment::Decreased;
        }
        // Without waiters, the next request comes late enough by itself. A request that comes
        // sooner should not wait for a long pause that a single object has caused.
        let longer = if has_waiters { self.pause * 2 } else { LEAST_PAUSE };
        self.pause = longer.clamp(LEAST_PAUSE, GREATEST_PAUSE);
        Adjustment::Paused(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// How many successes, all at the limit, lead from the last rejection back to the
    /// ceiling: as many as the limit for each step, and `PATIENCE` times that for one of them.
    const fn recovery(ceiling: usize) -> usize {
        ceiling * (ceiling - 1) / 2 + (PATIENCE - 1) * (ceiling - 1)
    }

    fn fill(aimd: &mut Aimd) -> Vec<Epoch> {
        let mut begun = Vec::new();
        while aimd.has_room() {
            begun.push(aimd.acquire());
        }
        begun
    }

    #[test]
    fn simultaneous_429s_halve_the_limit_once() {
        let mut aimd = Aimd::new(CEILING);
        let crowd: Vec<_> = (0..20).map(|_| aimd.acquire()).collect();
        let changes: Vec<_> = crowd
            .into_iter()
            .map(|epoch| {
                let change = aimd.record(epoch, Signal::Rejected, false);
                aimd.release();
                change
            })
            .collect();
        assert_eq!(changes[0], Adjustment::Decreased);
        assert!(changes[1..].iter().all(|change| *change == Adjustment::Unchanged), "{changes:?}");
        assert_eq!(aimd.limit(), 10);
    }

    #[test]
    fn a_limit_that_is_not_reached_does_not_grow() {
        let mut aimd = Aimd::new(8);
        let crowd = fill(&mut aimd);
        aimd.record(crowd[0], Signal::Rejected, false);
        crowd.iter().for_each(|_| aimd.release());
        for _ in 0..1000 {
            let epoch = aimd.acquire();
            assert_eq!(aimd.record(epoch, Signal::Served, false), Adjustment::Unchanged);
            aimd.release();
        }
        assert_eq!(aimd.limit(), 4);
    }

    #[test]
    fn requests_sent_before_a_cut_do_not_raise_the_limit() {
        let mut aimd = Aimd::new(8);
        let crowd = fill(&mut aimd);
        aimd.record(crowd[0], Signal::Rejected, false);
        for epoch in &crowd[1..] {
            assert_eq!(aimd.record(*epoch, Signal::Served, false), Adjustment::Unchanged);
        }
        assert_eq!(aimd.limit(), 4);
    }

    #[test]
    fn repeated_429s_at_the_minimum_pause_longer_until_a_success() {
        let mut aimd = Aimd::new(1);
        let mut lone = |signal, awaited| {
            let epoch = aimd.acquire();
            let change = aimd.record(epoch, signal, awaited);
            aimd.release();
            match change {
                Adjustment::Paused(pause) => pause.as_millis(),
                Adjustment::Unchanged | Adjustment::Increased | Adjustment::Decreased => 0,
            }
        };
        let pauses: Vec<_> = (0..7).map(|_| lone(Signal::Rejected, true)).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(lone(Signal::Rejected, false), 50, "nobody waits");
        assert_eq!(lone(Signal::Rejected, true), 100);
        assert_eq!(lone(Signal::Ignored, true), 0);
        assert_eq!(lone(Signal::Rejected, true), 200, "no answer is no success");
        assert_eq!(lone(Signal::Served, true), 0);
        assert_eq!(lone(Signal::Rejected, true), 50);
    }

    /// A server that handles `bears` requests at a time and rejects all others at once, and
    /// clients that send as many as they may. Returns the rejections and rounds until `requests`
    /// are served.
    fn play(bears: usize, clients: usize, requests: usize) -> (usize, usize) {
        let mut aimd = Aimd::new(CEILING);
        let (mut served, mut refused, mut rounds) = (0, 0, 0);
        while served < requests {
            rounds += 1;
            let begun = clients.min(aimd.limit());
            let epochs: Vec<_> = (0..begun).map(|_| aimd.acquire()).collect();
            let (fit, rest) = epochs.split_at(bears.min(begun));
            for epoch in rest {
                aimd.record(*epoch, Signal::Rejected, true);
                aimd.release();
                refused += 1;
            }
            for epoch in fit {
                aimd.record(*epoch, Signal::Served, true);
                aimd.release();
                served += 1;
            }
        }
        (refused, rounds)
    }

    /// Each climb costs one rejection and takes at least `PATIENCE` successes: at most one request
    /// in 16 is rejected, fewer the more the server handles. Most of its capacity is used.
    #[test]
    fn a_small_server_is_well_used_and_rejects_few_requests() {
        for bears in 1..=19 {
            let requests = 10_000;
            let (refused, rounds) = play(bears, 20, requests);
            // The first groups, and then one for each increase.
            let climb = bears * PATIENCE;
            assert!(refused <= 40 + requests / climb, "{refused} refusals of a server that bears {bears}");
            let used = requests as f64 / (rounds * bears) as f64;
            assert!(used > 0.8, "{used} of a server that bears {bears}");
        }
    }

    #[test]
    fn a_server_that_accepts_everything_is_never_limited() {
        assert_eq!(play(usize::MAX, 20, 10_000), (0, 500));
        let mut aimd = Aimd::new(CEILING);
        let mut in_flight: VecDeque<_> = fill(&mut aimd).into();
        assert_eq!(in_flight.len(), START);
        // With 100 clients: each time one is served, waiting ones take its place.
        for _ in START..100 {
            let served = in_flight.pop_front().expect("there are always some");
            aimd.record(served, Signal::Served, true);
            aimd.release();
            in_flight.extend(fill(&mut aimd));
        }
        assert_eq!(in_flight.len(), 100);
    }

    #[test]
    fn the_limit_grows_fast_only_until_the_first_429_and_only_while_it_is_used() {
        let mut aimd = Aimd::new(CEILING);
        for _ in 0..1000 {
            let crowd: Vec<_> = (0..aimd.limit().min(30)).map(|_| aimd.acquire()).collect();
            for epoch in crowd {
                aimd.record(epoch, Signal::Served, false);
                aimd.release();
            }
        }
        assert_eq!(aimd.limit(), 31);
        let crowd = fill(&mut aimd);
        aimd.record(crowd[0], Signal::Rejected, true);
        crowd.iter().for_each(|_| aimd.release());
        assert_eq!(aimd.limit(), 15);
        let crowd = fill(&mut aimd);
        let changes: Vec<_> = crowd.iter().map(|epoch| aimd.record(*epoch, Signal::Served, true)).collect();
        assert_eq!(changes.iter().filter(|change| **change == Adjustment::Increased).count(), 1);
    }

    proptest! {
        /// For any history: the bounds hold, nothing begins beyond them, one rejection counts
        /// for all requests that began before it, and no slot is lost on the way back up.
        #[test]
        fn any_history_keeps_the_bounds_and_recovers(
            ceiling in 1_usize..40,
            steps in prop::collection::vec((0_u8..8, any::<prop::sample::Index>(), any::<bool>()), 0..400),
        ) {
            let mut aimd = Aimd::new(ceiling);
            let (mut begun, mut late) = (Vec::<Epoch>::new(), Vec::<Epoch>::new());
            for (step, which, awaited) in steps {
                match step {
                    0..=3 if aimd.has_room() => {
                        prop_assert!(begun.len() < aimd.limit());
                        begun.push(aimd.acquire());
                    }
                    // Released before its end is recorded.
                    4 if !begun.is_empty() => {
                        late.push(begun.swap_remove(which.index(begun.len())));
                        aimd.release();
                    }
                    5..=7 if !begun.is_empty() || !late.is_empty() => {
                        let index = which.index(begun.len() + late.len());
                        let is_late = index >= begun.len();
                        let epoch =
                            if is_late { late.swap_remove(index - begun.len()) } else { begun.swap_remove(index) };
                        let signal = [Signal::Served, Signal::Rejected, Signal::Ignored][usize::from(step - 5)];
                        let (limit, current) = (aimd.limit(), aimd.epoch);
                        let change = aimd.record(epoch, signal, awaited);
                        match change {
                            Adjustment::Unchanged => prop_assert_eq!(aimd.limit(), limit),
                            Adjustment::Increased => prop_assert_eq!(aimd.limit(), limit + 1),
                            Adjustment::Decreased => prop_assert!(aimd.limit() <= limit / 2),
                            Adjustment::Paused(pause) => {
                                prop_assert_eq!((limit, aimd.limit()), (1, 1));
                                prop_assert!((LEAST_PAUSE..=GREATEST_PAUSE).contains(&pause));
                            }
                        }
                        if signal == Signal::Rejected {
                            prop_assert_eq!(aimd.epoch > current, epoch.0 == current);
                        }
                        if !is_late {
                            aimd.release();
                        }
                    }
                    _ => {}
                }
                prop_assert!((1..=ceiling).contains(&aimd.limit()));
                prop_assert_eq!(aimd.in_flight, begun.len());
            }
            for _ in begun {
                aimd.release();
            }
            prop_assert_eq!(aimd.in_flight, 0);
            let mut successes = 0;
            while aimd.limit() < ceiling {
                let epochs = fill(&mut aimd);
                let last = *epochs.last().expect("it is empty and never below one");
                aimd.record(last, Signal::Served, true);
                epochs.iter().for_each(|_| aimd.release());
                successes += 1;
                prop_assert!(successes <= recovery(ceiling), "{successes} successes");
            }
        }
    }
}
