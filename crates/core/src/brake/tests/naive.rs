//! Compares the ledger with a model that remembers every deletion.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A step: some time passes, then a deletion begins or ends.
#[derive(Clone, Debug)]
enum Step {
    Begin { object: usize, resource: usize },
    End { which: usize, result: DeletionResult },
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let pause = prop_oneof![4 => Just(0), 4 => 0..2_000_u64, 1 => 0..30_000_u64, 1 => 55_000..65_000_u64];
    let result = prop_oneof![4 => Just(DeletionResult::TookEffect), 1 => Just(DeletionResult::Unknown), 1 => Just(DeletionResult::NoEffect)];
    let step = prop_oneof![
        (0..40_usize, 0..2_usize).prop_map(|(object, resource)| Step::Begin { object, resource }),
        (0..8_usize, result).prop_map(|(which, result)| Step::End { which, result }),
    ];
    proptest::collection::vec((pause, step), 1..250)
}

/// A deletion that took effect at any time between its request and its answer.
#[derive(Clone, Debug)]
struct Sent {
    resource: usize,
    from: Duration,
    to: Duration,
}

/// The greatest number of these times in any window of this length.
fn most(moments: impl IntoIterator<Item = Duration>, window: Duration) -> usize {
    let mut moments: Vec<_> = moments.into_iter().collect();
    moments.sort_unstable();
    let ends = |start: Duration| moments.partition_point(|moment| *moment < start + window);
    (0..moments.len()).map(|first| ends(moments[first]) - first).max().unwrap_or_default()
}

/// Applies the steps to a ledger. Returns the deletions that may have taken effect, and whether the
/// brake engaged in the end.
fn live_through(limits: Limits, population: u64, steps: &[(u64, Step)]) -> (Vec<Sent>, bool) {
    let types = ["pods", "configmaps"];
    let mut ledger = Ledger::new(limits);
    let mut now = SECOND;
    let mut under_way: Vec<(usize, usize, Duration, Ticket)> = Vec::new();
    let mut sent = Vec::new();
    // Uncertain deletions: one of the attempts took effect, and it is unknown which.
    let mut uncertain: BTreeMap<(usize, usize), Sent> = BTreeMap::new();
    for (pause, step) in steps {
        now += Duration::from_millis(*pause);
        match step {
            Step::Begin { object, resource } => {
                // At most one worker processes an object.
                if under_way.iter().any(|(other, of, ..)| (other, of) == (object, resource)) {
                    continue;
                }
                let asked = self::object(types[*resource], "", object * 2 + resource);
                match ledger.begin(&asked, population, now) {
                    Ok(ticket) => under_way.push((*object, *resource, now, ticket)),
                    Err(Refusal::NotYet) => assert!(!under_way.is_empty(), "nothing to wait for"),
                    Err(Refusal::Engages { .. }) => return (sent, true),
                    other => panic!("{other:?}"),
                }
            }
            Step::End { which, result } if *which < under_way.len() => {
                let (object, resource, from, ticket) = under_way.swap_remove(*which);
                ledger.settle(ticket, *result, now);
                let this = Sent { resource, from, to: now };
                match result {
                    DeletionResult::TookEffect => {
                        uncertain.remove(&(object, resource));
                        sent.push(this);
                    }
                    DeletionResult::Unknown => drop(uncertain.insert((object, resource), this)),
                    DeletionResult::NoEffect => {}
                }
            }
            Step::End { .. } => {}
        }
    }
    sent.extend(uncertain.into_values());
    (sent, false)
}

proptest! {
    #[test]
    fn no_minute_has_more_deletions_than_allowed(limit in 1..20_u32, steps in steps()) {
        let (sent, _) = live_through(rate(limit), 0, &steps);
        let limit = usize::try_from(limit).unwrap();
        prop_assert!(most(sent.iter().map(|sent| sent.from), 60 * SECOND) <= limit);
        prop_assert!(most(sent.iter().map(|sent| sent.to), 60 * SECOND) <= limit);
        // They may take effect at any time in between.
        let middle = |sent: &Sent| sent.from + (sent.to - sent.from) / 2;
        prop_assert!(most(sent.iter().map(middle), 60 * SECOND) <= limit);
    }

    #[test]
    fn no_window_has_more_deletions_than_the_share_of_a_type(
        percent in 1..=100_u32, population in 0..60_u64, floor in 0..5_u32, seconds in 1..200_u64, steps in steps(),
    ) {
        let window = Duration::from_secs(seconds);
        let limits = share(percent, window, floor);
        let (sent, _) = live_through(limits, population, &steps);
        let part = (population * u64::from(percent)).div_ceil(100).max(u64::from(floor)).max(1);
        for resource in 0..2 {
            let of = || sent.iter().filter(|sent| sent.resource == resource);
            prop_assert!(most(of().map(|sent| sent.from), window) <= usize::try_from(part).unwrap());
            prop_assert!(most(of().map(|sent| sent.to), window) <= usize::try_from(part).unwrap());
        }
    }

    /// The brake engages after this many deletions within a minute, and at most one slot later.
    #[test]
    fn it_engages_only_when_the_limit_is_reached(limit in 1..20_u32, pauses in proptest::collection::vec(0..6_000_u64, 1..100)) {
        let mut ledger = Ledger::new(rate(limit));
        let (mut now, mut sent) = (SECOND, Vec::new());
        for (number, pause) in pauses.into_iter().enumerate() {
            now += Duration::from_millis(pause);
            let within = |seconds: u32| sent.iter().filter(|then| now - **then < seconds * SECOND).count();
            let limit = usize::try_from(limit).unwrap();
            match ledger.delete(&pod(number), 0, now) {
                Ok(()) => prop_assert!(within(60) < limit, "deletions of almost a minute ago count"),
                Err(_) => {
                    prop_assert!(within(62) >= limit, "early");
                    return Ok(());
                }
            }
            sent.push(now);
        }
    }

    /// Others create and delete objects, too. A window begins with a slot, and its population is the
    /// first that was counted in that slot.
    #[test]
    fn a_share_refers_to_the_population_at_the_beginning_of_each_window(
        percent in 1..=100_u32, steps in proptest::collection::vec((0..4_000_u64, 0..80_u64), 1..150),
    ) {
        let (window, slot) = (120 * SECOND, 2 * SECOND);
        let mut ledger = Ledger::new(share(percent, window, 0));
        let mut now = Duration::ZERO;
        let mut deleted: Vec<Duration> = Vec::new();
        // The time and result of the first count in each slot.
        let mut asked: BTreeMap<u128, (Duration, u64)> = BTreeMap::new();
        for (number, (pause, population)) in steps.into_iter().enumerate() {
            now += Duration::from_millis(pause);
            asked.entry(now.as_nanos() / slot.as_nanos()).or_insert((now, population));
            if ledger.delete(&pod(number), population, now).is_err() {
                break;
            }
            deleted.push(now);
            for (start, population) in asked.values() {
                let within = deleted.iter().filter(|then| (*start..*start + window).contains(*then)).count();
                let part = (population * u64::from(percent)).div_ceil(100).max(1);
                prop_assert!(u64::try_from(within).unwrap() <= part, "{within} of {population} since {start:?}");
            }
        }
    }
}
