//! How many requests a server bears at a time, as far as it has said.
//!
//! Plain data: no clock, no waiting. As TCP does it: twice as wide with each round
//! trip until it is refused for the first time; from then on additive increase,
//! multiplicative decrease, with a memory of where it was refused last: a window that
//! went straight back there would be refused once per climb, which at a server that
//! bears one request is once for every two that it serves.
//!
//! Many DELETEs under way cost API server and etcd less processor time each (docs/benchmarks.md
//! has figures). But each needs a connection with a TLS handshake of its own, which a small
//! cascade should not pay for; that is why a window does not begin at its widest.

use std::time::Duration;

/// Where a window begins: what the built-in collector has under way
/// (`--concurrent-gc-syncs`).
pub const START: usize = 20;
/// The most it grows to: more than can be configured (1000 workers that delete, 1000
/// releases), so that it holds up nobody at a server that is willing.
pub const CEILING: usize = 1 << 16;
/// The step up to where it was refused last takes so many times the usual successes.
const PATIENCE: usize = 16;
/// How long nothing is sent after a lone request was refused.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// The longest of these pauses.
const GREATEST_PAUSE: Duration = Duration::from_secs(1);

/// What a request's end says about how much the server bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It was dealt with, whatever came of it.
    Served,
    /// The server has too much to do.
    Refused,
    /// Nothing: not sent, no answer, a failure.
    Silent,
}

/// What became of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// One more.
    Grown,
    /// Half as many.
    Cut,
    /// One at a time is too much: none for so long.
    Paused(Duration),
}

/// When a request was begun, counted in refusals that were heeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// So many requests may be under way.
#[derive(Clone, Debug)]
pub struct Window {
    limit: usize,
    ceiling: usize,
    under_way: usize,
    /// Refusals that were heeded.
    heeded: u64,
    /// Requests served since the last change while all places were taken.
    served: usize,
    /// Where it was refused last; forgotten once it has grown beyond.
    refused_at: Option<usize>,
    /// The last pause, if nothing was served since.
    pause: Duration,
}

impl Window {
    /// One that has not been refused yet.
    pub const fn new(ceiling: usize) -> Self {
        Self {
            limit: if ceiling < START { ceiling } else { START },
            ceiling,
            under_way: 0,
            heeded: 0,
            served: 0,
            refused_at: None,
            pause: Duration::ZERO,
        }
    }

    /// How many may be under way.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Whether one more may begin.
    pub const fn has_room(&self) -> bool {
        self.under_way < self.limit
    }

    /// One more has begun.
    pub const fn begin(&mut self) -> Ticket {
        self.under_way += 1;
        Ticket(self.heeded)
    }

    /// What has begun, but was not sent yet, begins now.
    pub const fn renew(&self) -> Ticket {
        Ticket(self.heeded)
    }

    /// One has given back its place, whether or not it has been judged.
    pub const fn leave(&mut self) {
        debug_assert!(self.under_way > 0, "who leaves has begun");
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Takes a request's end into account, best before it leaves. `awaited`: others
    /// wait for a place.
    ///
    /// What was sent before the last refusal that was heeded says nothing new: it met
    /// the same crowd.
    pub fn judge(&mut self, ticket: Ticket, signal: Signal, awaited: bool) -> Change {
        let is_news = ticket.0 == self.heeded;
        match signal {
            Signal::Silent => Change::None,
            Signal::Served => {
                self.pause = Duration::ZERO;
                // Whether it bears more is only known where more would be asked of it.
                if is_news && !self.has_room() { self.serve() } else { Change::None }
            }
            Signal::Refused if is_news => self.refuse(awaited),
            Signal::Refused => Change::None,
        }
    }

    fn serve(&mut self) -> Change {
        self.served += 1;
        let next = self.limit + 1;
        let needed = match self.refused_at {
            _ if self.heeded == 0 => 1,
            Some(refused_at) if refused_at == next => self.limit * PATIENCE,
            Some(_) | None => self.limit,
        };
        if self.served < needed || next > self.ceiling {
            return Change::None;
        }
        self.limit = next;
        self.served = 0;
        self.refused_at = self.refused_at.filter(|refused_at| *refused_at >= next);
        Change::Grown
    }

    fn refuse(&mut self, awaited: bool) -> Change {
        self.heeded += 1;
        self.served = 0;
        // Of a window that was not used up, what was used is halved.
        let borne = self.limit.min(self.under_way.max(1));
        self.refused_at = Some(borne);
        if self.limit > 1 {
            self.limit = (borne / 2).max(1);
            return Change::Cut;
        }
        // Where nobody waits, the next one comes late enough by itself, and whoever
        // comes in between should not find a long pause that one object has caused.
        let longer = if awaited { self.pause * 2 } else { LEAST_PAUSE };
        self.pause = longer.clamp(LEAST_PAUSE, GREATEST_PAUSE);
        Change::Paused(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// So many successes, all with every place taken, lead from the last refusal back
    /// to the ceiling: one window's worth for each step, and patience for one of them.
    const fn recovery(ceiling: usize) -> usize {
        ceiling * (ceiling - 1) / 2 + (PATIENCE - 1) * (ceiling - 1)
    }

    fn fill(window: &mut Window) -> Vec<Ticket> {
        let mut begun = Vec::new();
        while window.has_room() {
            begun.push(window.begin());
        }
        begun
    }

    #[test]
    fn one_crowd_is_one_refusal_and_halves_what_was_under_way() {
        let mut window = Window::new(CEILING);
        let crowd: Vec<_> = (0..20).map(|_| window.begin()).collect();
        let changes: Vec<_> = crowd
            .into_iter()
            .map(|ticket| {
                let change = window.judge(ticket, Signal::Refused, false);
                window.leave();
                change
            })
            .collect();
        assert_eq!(changes[0], Change::Cut);
        assert!(changes[1..].iter().all(|change| *change == Change::None), "{changes:?}");
        assert_eq!(window.limit(), 10);
    }

    #[test]
    fn a_window_that_is_not_used_up_does_not_grow() {
        let mut window = Window::new(8);
        let crowd = fill(&mut window);
        window.judge(crowd[0], Signal::Refused, false);
        crowd.iter().for_each(|_| window.leave());
        for _ in 0..1000 {
            let ticket = window.begin();
            assert_eq!(window.judge(ticket, Signal::Served, false), Change::None);
            window.leave();
        }
        assert_eq!(window.limit(), 4);
    }

    #[test]
    fn what_was_sent_before_a_cut_does_not_make_it_grow() {
        let mut window = Window::new(8);
        let crowd = fill(&mut window);
        window.judge(crowd[0], Signal::Refused, false);
        for ticket in &crowd[1..] {
            assert_eq!(window.judge(*ticket, Signal::Served, false), Change::None);
        }
        assert_eq!(window.limit(), 4);
    }

    #[test]
    fn lone_refusals_pause_longer_and_longer_until_something_is_served() {
        let mut window = Window::new(1);
        let mut lone = |signal, awaited| {
            let ticket = window.begin();
            let change = window.judge(ticket, signal, awaited);
            window.leave();
            match change {
                Change::Paused(pause) => pause.as_millis(),
                Change::None | Change::Grown | Change::Cut => 0,
            }
        };
        let pauses: Vec<_> = (0..7).map(|_| lone(Signal::Refused, true)).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(lone(Signal::Refused, false), 50, "nobody waits");
        assert_eq!(lone(Signal::Refused, true), 100);
        assert_eq!(lone(Signal::Silent, true), 0);
        assert_eq!(lone(Signal::Refused, true), 200, "no answer is no success");
        assert_eq!(lone(Signal::Served, true), 0);
        assert_eq!(lone(Signal::Refused, true), 50);
    }

    /// A server that bears so many at a time and refuses the rest at once, and clients
    /// that send all they may. Returns refusals and rounds for so many served requests.
    fn play(bears: usize, clients: usize, requests: usize) -> (usize, usize) {
        let mut window = Window::new(CEILING);
        let (mut served, mut refused, mut rounds) = (0, 0, 0);
        while served < requests {
            rounds += 1;
            let begun = clients.min(window.limit());
            let tickets: Vec<_> = (0..begun).map(|_| window.begin()).collect();
            let (fit, rest) = tickets.split_at(bears.min(begun));
            for ticket in rest {
                window.judge(*ticket, Signal::Refused, true);
                window.leave();
                refused += 1;
            }
            for ticket in fit {
                window.judge(*ticket, Signal::Served, true);
                window.leave();
                served += 1;
            }
        }
        (refused, rounds)
    }

    /// One refusal for each climb, and a climb takes at least the patience: at most one in
    /// 16 requests is in vain, fewer the more the server bears; and of what it bears, most is used.
    #[test]
    fn a_small_server_is_used_well_and_refuses_little() {
        for bears in 1..=19 {
            let requests = 10_000;
            let (refused, rounds) = play(bears, 20, requests);
            // The first crowds, and then one for each climb.
            let climb = bears * PATIENCE;
            assert!(refused <= 40 + requests / climb, "{refused} refusals of a server that bears {bears}");
            let used = requests as f64 / (rounds * bears) as f64;
            assert!(used > 0.8, "{used} of a server that bears {bears}");
        }
    }

    #[test]
    fn a_willing_server_is_never_held_back() {
        assert_eq!(play(usize::MAX, 20, 10_000), (0, 500));
        let mut window = Window::new(CEILING);
        let mut under_way: VecDeque<_> = fill(&mut window).into();
        assert_eq!(under_way.len(), START);
        // Of 100 clients; as one is served, those who wait come.
        for _ in START..100 {
            let served = under_way.pop_front().expect("there are always some");
            window.judge(served, Signal::Served, true);
            window.leave();
            under_way.extend(fill(&mut window));
        }
        assert_eq!(under_way.len(), 100);
    }

    #[test]
    fn it_grows_fast_only_until_the_first_refusal_and_no_further_than_is_asked_for() {
        let mut window = Window::new(CEILING);
        for _ in 0..1000 {
            let crowd: Vec<_> = (0..window.limit().min(30)).map(|_| window.begin()).collect();
            for ticket in crowd {
                window.judge(ticket, Signal::Served, false);
                window.leave();
            }
        }
        assert_eq!(window.limit(), 31);
        let crowd = fill(&mut window);
        window.judge(crowd[0], Signal::Refused, true);
        crowd.iter().for_each(|_| window.leave());
        assert_eq!(window.limit(), 15);
        let crowd = fill(&mut window);
        let changes: Vec<_> =
            crowd.iter().map(|ticket| window.judge(*ticket, Signal::Served, true)).collect();
        assert_eq!(changes.iter().filter(|change| **change == Change::Grown).count(), 1);
    }

    proptest! {
        /// Whatever happens: the bounds hold, nothing begins beyond them, one refusal is
        /// heeded for all that began before it, and nothing is lost on the way back up.
        #[test]
        fn any_history_keeps_the_bounds_and_recovers(
            ceiling in 1_usize..40,
            steps in prop::collection::vec((0_u8..8, any::<prop::sample::Index>(), any::<bool>()), 0..400),
        ) {
            let mut window = Window::new(ceiling);
            let (mut begun, mut late) = (Vec::<Ticket>::new(), Vec::<Ticket>::new());
            for (step, which, awaited) in steps {
                match step {
                    0..=3 if window.has_room() => {
                        prop_assert!(begun.len() < window.limit());
                        begun.push(window.begin());
                    }
                    // Leaves without having been judged yet.
                    4 if !begun.is_empty() => {
                        late.push(begun.swap_remove(which.index(begun.len())));
                        window.leave();
                    }
                    5..=7 if !begun.is_empty() || !late.is_empty() => {
                        let index = which.index(begun.len() + late.len());
                        let is_late = index >= begun.len();
                        let ticket =
                            if is_late { late.swap_remove(index - begun.len()) } else { begun.swap_remove(index) };
                        let signal = [Signal::Served, Signal::Refused, Signal::Silent][usize::from(step - 5)];
                        let (limit, heeded) = (window.limit(), window.heeded);
                        let change = window.judge(ticket, signal, awaited);
                        match change {
                            Change::None => prop_assert_eq!(window.limit(), limit),
                            Change::Grown => prop_assert_eq!(window.limit(), limit + 1),
                            Change::Cut => prop_assert!(window.limit() <= limit / 2),
                            Change::Paused(pause) => {
                                prop_assert_eq!((limit, window.limit()), (1, 1));
                                prop_assert!((LEAST_PAUSE..=GREATEST_PAUSE).contains(&pause));
                            }
                        }
                        if signal == Signal::Refused {
                            prop_assert_eq!(window.heeded > heeded, ticket.0 == heeded);
                        }
                        if !is_late {
                            window.leave();
                        }
                    }
                    _ => {}
                }
                prop_assert!((1..=ceiling).contains(&window.limit()));
                prop_assert_eq!(window.under_way, begun.len());
            }
            for _ in begun {
                window.leave();
            }
            prop_assert_eq!(window.under_way, 0);
            let mut successes = 0;
            while window.limit() < ceiling {
                let tickets = fill(&mut window);
                let last = *tickets.last().expect("it is empty and never below one");
                window.judge(last, Signal::Served, true);
                tickets.iter().for_each(|_| window.leave());
                successes += 1;
                prop_assert!(successes <= recovery(ceiling), "{successes} successes");
            }
        }
    }
}
