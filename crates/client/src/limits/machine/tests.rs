use proptest::prelude::*;

use super::*;
use crate::testing::widgets;

const SERVED: Outcome<'_> = Outcome::Served;
const REJECTED: Outcome<'_> = Outcome::Rejected;

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn failure() -> ApiError {
    let (target, message) = (String::new(), "no".to_owned());
    ApiError { class: ErrorClass::Transient, action: "DELETE", target, message, code: None }
}

/// A window after rejections, so that it has this limit.
fn window(limit: usize) -> Window {
    let mut window = Window::new();
    window.record(0, REJECTED, 2 * limit, Instant::now());
    assert_eq!(window.limit(), limit);
    window
}

#[test]
fn simultaneous_429s_halve_the_limit_once() {
    let mut window = Window::new();
    let count = (0..20).filter(|sent| window.record(0, REJECTED, 20 - sent, Instant::now())).count();
    assert_eq!((count, window.limit()), (1, 10));
}

#[test]
fn the_limit_grows_only_while_it_is_reached_and_by_requests_sent_after_the_cut() {
    let now = Instant::now();
    for (epoch, load, grows) in [(1, 4, true), (1, 3, false), (0, 4, false)] {
        let mut window = window(4);
        for _ in 0..1000 {
            window.record(epoch, SERVED, load, now);
        }
        assert_eq!(window.limit() > 4, grows, "{epoch} {load}");
    }
    let mut window = Window::new();
    for _ in 0..10 {
        window.record(0, SERVED, window.limit(), now);
    }
    assert_eq!(window.limit(), START + 10, "before the first rejection, by each request");
    window.record(0, REJECTED, 30, now);
    for _ in 0..15 {
        window.record(1, SERVED, 15, now);
    }
    assert_eq!(window.limit(), 16, "after it, by each round");
}

#[test]
fn a_429_at_the_minimum_is_followed_by_a_pause() {
    let (mut window, now) = (window(1), Instant::now());
    window.record(window.epoch(), SERVED, 0, now);
    assert_eq!(window.paused_until(now), None);
    window.record(window.epoch(), REJECTED, 1, now);
    assert_eq!((window.limit(), window.paused_until(now)), (1, Some(now + REST)));
    assert_eq!(window.paused_until(now + REST), None);
}

proptest! {
    /// One rejection counts for all requests that were sent before it, and a limit that was cut recovers.
    #[test]
    fn any_history_keeps_the_bounds_and_recovers(
        steps in prop::collection::vec((0_u64..3, 0_usize..3, 0_usize..40), 0..400),
    ) {
        let (mut window, now) = (Window::new(), Instant::now());
        for (age, outcome, load) in steps {
            let (epoch, limit) = (window.epoch(), window.limit());
            let sent = epoch.saturating_sub(age);
            let outcome = [SERVED, REJECTED, Outcome::NotSent][outcome];
            let counts = window.record(sent, outcome, load, now);
            prop_assert_eq!(counts, outcome == REJECTED && sent == epoch);
            prop_assert_eq!(window.epoch(), epoch + u64::from(counts));
            prop_assert!(window.limit() >= 1);
            if counts {
                prop_assert!(window.limit() <= (limit / 2).max(1));
            } else {
                prop_assert!((limit..=limit + 1).contains(&window.limit()));
            }
        }
        for _ in 0..START * (START + CAUTION) {
            window.record(window.epoch(), SERVED, window.limit(), now);
        }
        prop_assert!(window.limit() >= START);
    }
}

/// Compartments of one type and verb, at a moment that tests move.
struct Bed {
    compartments: Compartments,
    now: Instant,
}

impl Bed {
    fn new() -> Self {
        Self { compartments: Compartments::default(), now: Instant::now() }
    }

    fn admit(&mut self, namespace: &str) -> Result<Admitted, Refusal> {
        self.admit_of(namespace, "w")
    }

    fn admit_of(&mut self, namespace: &str, name: &str) -> Result<Admitted, Refusal> {
        let resource = widgets().group_resource.clone();
        let of = Compartment { resource, verb: Verb::Delete, namespace: Some(namespace.into()) };
        self.compartments.admit(of, name, self.now)
    }

    fn end(&mut self, request: &Admitted, outcome: Outcome<'_>) {
        self.compartments.end(request, outcome, self.now);
    }

    /// A request that hangs.
    fn hang(&mut self, namespace: &str) -> Admitted {
        let mut request = self.admit(namespace).unwrap();
        self.compartments.hangs(&mut request, self.now);
        request
    }

    /// A request that is answered after this time.
    fn answer(&mut self, namespace: &str, after: u64) {
        let request = self.admit(namespace).unwrap();
        self.now += milliseconds(after);
        self.end(&request, SERVED);
    }

    /// A request that fails after this time.
    fn fail(&mut self, namespace: &str, after: u64) {
        let request = self.admit(namespace).unwrap();
        self.now += milliseconds(after);
        self.end(&request, Outcome::Failed(&failure()));
    }
}

#[test]
fn a_request_hangs_after_a_second_or_after_an_eighth_where_others_hang() {
    let mut bed = Bed::new();
    let patience = |bed: &mut Bed, namespace: &str| bed.admit(namespace).unwrap().patience;
    assert_eq!(patience(&mut bed, "other"), milliseconds(1000));
    let hangs = bed.hang("bad");
    assert_eq!(patience(&mut bed, "other"), milliseconds(125));
    assert_eq!(patience(&mut bed, "bad"), Duration::ZERO, "it is expected to hang");
    bed.answer("slow", 1000);
    assert_eq!(patience(&mut bed, "slow"), milliseconds(125));
    bed.answer("other", 999);
    assert_eq!(patience(&mut bed, "other"), milliseconds(1000), "it was answered in time");
    // Dropped: nobody waits for them any more.
    bed.end(&hangs, Outcome::NotSent);
    assert_eq!(bed.compartments.troubled(), 1, "one that was expected to hang is in flight");
}

#[test]
fn while_one_request_hangs_four_are_in_flight() {
    let mut bed = Bed::new();
    let mut in_flight = vec![bed.hang("bad")];
    in_flight.extend(std::iter::from_fn(|| bed.admit("bad").ok()));
    assert_eq!(in_flight.len(), 4);
    let why = bed.admit("bad").unwrap_err().why;
    assert!(why.contains("4 requests of this type and verb in this namespace"), "{why}");
    bed.end(&in_flight.pop().unwrap(), SERVED);
    assert!(bed.admit("bad").is_ok(), "there is room again");
}

#[test]
fn all_that_are_known_to_hang_have_64_requests_in_flight_and_96_with_others() {
    let mut bed = Bed::new();
    let mut in_flight: Vec<_> = (0..20).map(|n| bed.hang(&format!("bad-{n}"))).collect();
    for n in 0..20 {
        in_flight.extend(std::iter::from_fn(|| bed.admit(&format!("bad-{n}")).ok()));
    }
    assert_eq!(in_flight.len(), 64);
    bed.answer("quick", 1);
    for n in 0.. {
        let Ok(mut request) = bed.admit(&format!("unknown-{n}")) else { break };
        bed.compartments.hangs(&mut request, bed.now);
        in_flight.push(request);
    }
    assert_eq!(in_flight.len(), 96);
    assert!(bed.admit("quick").is_ok(), "it was answered in time");
}

#[test]
fn after_a_failure_that_took_two_seconds_one_request_at_a_time_is_sent() {
    let mut bed = Bed::new();
    bed.fail("bad", 1999);
    assert!(bed.admit("bad").is_ok());
    let took = milliseconds(2000);
    bed.fail("bad", 2000);
    assert_eq!(bed.admit_of("bad", "v").unwrap_err().retry_after, PAUSE);
    bed.now += PAUSE;
    assert_eq!(bed.admit("bad").unwrap_err().retry_after, took, "not the same object again");
    let probe = bed.admit_of("bad", "v").unwrap();
    assert_eq!(bed.admit_of("bad", "u").unwrap_err().retry_after, took, "it may take as long");
    bed.end(&probe, Outcome::NotSent);
    bed.now += took;
    assert_eq!(bed.compartments.troubled(), 1);
    let probe = bed.admit("bad").expect("nobody else asked");
    bed.end(&probe, SERVED);
    assert!((0..20).all(|_| bed.admit("bad").is_ok()), "an answer ended it");
    bed.fail("bad", 2000);
    bed.compartments.resume();
    assert_eq!(bed.compartments.troubled(), 0);
}

#[test]
fn no_more_than_4096_compartments_are_in_memory() {
    let mut bed = Bed::new();
    let first = bed.hang("bad-0");
    for n in 1..4200 {
        bed.answer(&format!("quick-{n}"), 0);
    }
    assert_eq!(bed.compartments.0.len(), 4096);
    // Admitted together, before any of them hangs; those that answer in time make room.
    let mut requests: Vec<_> = (1..4200).filter_map(|n| bed.admit(&format!("bad-{n}")).ok()).collect();
    assert_eq!(requests.len(), 4199);
    requests.iter_mut().for_each(|request| bed.compartments.hangs(request, bed.now));
    assert_eq!((bed.compartments.0.len(), bed.compartments.troubled()), (4096, 4096));
    requests.iter().chain([&first]).for_each(|request| bed.end(request, Outcome::NotSent));
    assert!(bed.compartments.0.is_empty());
}

#[test]
fn unused_compartments_are_forgotten() {
    let mut bed = Bed::new();
    for n in 0..100 {
        bed.fail(&format!("bad-{n}"), 2000);
        assert!(bed.compartments.0.len() <= 20, "those that nobody has asked for since are forgotten");
    }
}
