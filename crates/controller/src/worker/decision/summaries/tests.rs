//! The log of many decisions is short, and nothing is missing from its sums.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{advance, sleep};

use super::*;
use crate::actors::tests::in_system;
use kube_gc_config::LogFormat;
use kube_gc_core::object::Uid;
use kube_gc_observe::telemetry::testing::{logged, logged_in};

const SECOND: Duration = Duration::from_secs(1);

fn group(kind: &str, name: &str) -> Group {
    let owner = OwnerReference {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: name.into(),
        uid: Uid::parse(&format!("uid-of-{name}")).unwrap(),
        controller: false,
        block_owner_deletion: false,
    };
    Group { namespace: Namespace::parse("shop"), owner }
}

fn deleted(resource: &str) -> Counted {
    Counted { action: "delete", resource: GroupResource::parse(resource), outcome: "deleted" }
}

fn decision(name: &str) -> (Group, Counted) {
    (group("ReplicaSet", name), deleted("pods"))
}

fn total(summaries: &[(Option<Group>, Counts)]) -> u64 {
    summaries.iter().map(|(_, counts)| counts.total).sum()
}

fn finished_total(finished: Option<Finished>) -> u64 {
    finished.map_or(0, |(_, summaries)| total(&summaries))
}

/// How many of so many decisions at one moment have a line, and how many are in a summary.
fn shown(period: &mut Period, now: Instant, decisions: u32) -> [u32; 2] {
    let all: Vec<_> = (0..decisions).map(|_| period.add(now, || decision("web")).0).collect();
    [LoggedAs::Line, LoggedAs::Summary]
        .map(|which| u32::try_from(all.iter().filter(|shown| **shown == which).count()).unwrap())
}

#[test]
fn a_decision_has_a_line_until_there_are_too_many_and_again_when_there_are_few() {
    let (mut period, began) = (Period::new(DecisionLines::Auto), Instant::now());
    assert_eq!(shown(&mut period, began, MAX_RATE), [MAX_RATE, 0]);
    assert_eq!(period.ends(), None, "nothing to sum up");

    assert_eq!(shown(&mut period, began + SECOND, MAX_RATE + 10), [MAX_RATE, 10]);
    let next = began + 2 * SECOND;
    assert_eq!(period.ends(), Some(next));
    assert_eq!(finished_total(period.end(next)), 10);
    assert_eq!(shown(&mut period, next, 1000), [0, 1000], "no line while it lasts");
    assert_eq!(finished_total(period.end(next + SECOND)), 1000);
    assert_eq!(shown(&mut period, next + SECOND, MAX_RATE), [0, MAX_RATE], "they follow the storm");
    assert_eq!(finished_total(period.end(next + 2 * SECOND)), u64::from(MAX_RATE));
    assert_eq!(shown(&mut period, next + 2 * SECOND, MAX_RATE), [MAX_RATE, 0]);
}

#[test]
fn the_setting_decides_without_a_rate() {
    for (lines, expected, after) in [
        (DecisionLines::All, [1000, 0], [1, 0]),
        (DecisionLines::Summaries, [0, 1000], [1, 0]),
        (DecisionLines::None, [0, 0], [0, 0]),
    ] {
        let (mut period, now) = (Period::new(lines), Instant::now());
        assert_eq!(shown(&mut period, now, 1000), expected, "{lines:?}");
        assert_eq!(finished_total(period.close(now)), u64::from(expected[1]));
        assert_eq!(shown(&mut period, now, 1), after, "nobody ends another period");
    }
}

#[test]
fn the_owners_with_the_most_decisions_have_a_line_and_the_rest_is_summed_up() {
    let mut sums = Sums::default();
    for owner in 0..2 * MAX_LINES {
        (0..=owner).for_each(|_| sums.add(group("ReplicaSet", &owner.to_string()), deleted("pods")));
    }
    let summaries = sums.take();
    let (owners, rest) = summaries.split_at(MAX_LINES);
    assert!(owners.iter().all(|(of, counts)| of.is_some() && counts.total > MAX_LINES as u64));
    let [(None, counts)] = rest else { panic!("{rest:?}") };
    assert_eq!(counts.total, (1..=MAX_LINES as u64).sum::<u64>());
}

/// Whoever creates objects chooses the kinds, names and uids of their owners.
#[test]
fn invented_owners_and_kinds_take_neither_memory_nor_lines() {
    let mut sums = Sums::default();
    let number = 5 * MAX_SUMS;
    for owner in 0..number {
        let name = format!("{owner}{}", "x".repeat(200));
        sums.add(group(&name, &name), deleted(&format!("widgets.{owner}.example.com")));
    }
    assert_eq!(sums.owners.len(), MAX_SUMS);
    let summaries = sums.take();
    assert_eq!((summaries.len(), total(&summaries)), (MAX_LINES + 1, number as u64));
    let (others, counts) = summaries.last().unwrap();
    assert_eq!(*others, None);
    assert_eq!(serde_json::to_value(counts).unwrap().as_array().map(Vec::len), Some(LISTED));
    let uncounted = number - MAX_LINES - LISTED;
    assert!(counts.to_string().ends_with(&format!("; {uncounted} others\"")), "{counts}");
}

proptest! {
    /// Whenever decisions come, whatever they follow from, and whenever the task wakes up.
    #[test]
    fn each_decision_has_a_line_or_is_in_one_sum(
        steps in prop::collection::vec((0_u64..1500, 0_u32..60, 0_u32..30, any::<bool>()), 1..40)
    ) {
        let (mut period, mut now) = (Period::new(DecisionLines::Auto), Instant::now());
        let (mut decisions, mut lines, mut sums) = (0, 0, 0);
        for (pause, number, owner, is_woken) in steps {
            now += Duration::from_millis(pause);
            if is_woken {
                sums += finished_total(period.end(now));
            }
            for _ in 0..number {
                let (shown, finished) = period.add(now, || decision(&owner.to_string()));
                sums += finished_total(finished);
                lines += u64::from(shown == LoggedAs::Line);
                decisions += 1;
            }
        }
        sums += finished_total(period.close(now));
        prop_assert_eq!(lines + sums, decisions);
    }
}

#[test]
fn the_last_second_is_written_although_no_further_decision_follows() {
    let log = logged_in(LogFormat::Json, "info", false, || {
        in_system(async {
            let summaries = Summaries::new(DecisionLines::Summaries);
            tokio::spawn(summaries.clone().run());
            for _ in 0..3 {
                for _ in 0..500 {
                    assert_eq!(summaries.add(|| decision("web")), LoggedAs::Summary);
                }
                sleep(11 * SECOND).await;
            }
        });
    });
    assert_eq!(log.lines().count(), 3, "one for each second: {log}");
    let mut line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let line = line.as_object_mut().unwrap();
    line.retain(|field, _| !["timestamp", "level", "target"].contains(&&**field));
    let expected = json!({
        "message": "summary of decisions", "namespace": "shop", "count": 500, "seconds": 1.0,
        "owner": { "api_version": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-of-web" },
        "counts": [{ "action": "delete", "resource": "pods", "outcome": "deleted", "count": 500 }],
    });
    assert_eq!(Value::Object(line.clone()), expected);
}

#[test]
fn nothing_is_lost_when_the_collector_stops_or_is_dropped() {
    for stops in [true, false] {
        let log = logged(|| {
            in_system(async {
                let summaries = Summaries::new(DecisionLines::Auto);
                for _ in 0..=MAX_RATE {
                    summaries.add(|| decision("web"));
                }
                advance(SECOND / 4).await;
                if stops {
                    summaries.close();
                    assert_eq!(summaries.add(|| decision("late")), LoggedAs::Line);
                }
            });
        });
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines.len(), 2, "{log}");
        assert!(lines[0].contains("log.decisions = \"all\""), "{log}");
        let expected = "summary of decisions namespace=\"shop\" \
                        owner=\"apps/v1/ReplicaSet, name: web, uid: uid-of-web\" count=1 \
                        counts=\"1 delete pods deleted\" seconds=0.25";
        assert!(lines[1].ends_with(expected), "{}", lines[1]);
    }
}
