//! The log of many decisions is short, and nothing is missing from its sums.

use std::io::Write;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;
use crate::config::{LogFormat, LogSettings};
use kube_gc_core::object::{GroupResource, Namespace, OwnerReference, ResourceType, Scope, Uid};
use kube_gc_core::text::LISTED;

const SECOND: Duration = Duration::from_secs(1);

fn subject(namespace: &str, kind: &str, name: &str) -> Subject {
    let owner = OwnerReference {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: name.into(),
        uid: Uid::parse(&format!("uid-of-{name}")).unwrap(),
        controller: false,
        block_owner_deletion: false,
    };
    Subject { namespace: Namespace::parse(namespace), owner }
}

fn deleted(resource: &str) -> Counted {
    let resource = ResourceType {
        group_resource: GroupResource::parse(resource),
        version: "v1".into(),
        kind: "Kind".into(),
        scope: Scope::Namespaced,
    };
    Counted { action: "delete", resource: Arc::new(resource), outcome: "deleted" }
}

fn decision(name: &str) -> (Subject, Counted) {
    (subject("shop", "ReplicaSet", name), deleted("pods"))
}

fn total(summaries: &[Summary]) -> u64 {
    summaries.iter().map(|summary| summary.counts.total()).sum()
}

fn finished_total(finished: Option<&Finished>) -> u64 {
    finished.map_or(0, |finished| total(&finished.summaries))
}

/// How each of so many decisions at one moment is shown.
fn shown(aggregator: &mut Aggregator, now: Instant, decisions: u32) -> Vec<LoggedAs> {
    (0..decisions).map(|_| aggregator.add(now, || decision("web")).0).collect()
}

fn count(all: &[LoggedAs], which: LoggedAs) -> u32 {
    u32::try_from(all.iter().filter(|shown| **shown == which).count()).unwrap()
}

#[test]
fn a_decision_has_a_line_until_there_are_too_many_and_again_when_there_are_few() {
    let (mut aggregator, began) = (Aggregator::new(DecisionLines::Auto), Instant::now());
    let slow = shown(&mut aggregator, began, MAX_RATE);
    assert_eq!(count(&slow, LoggedAs::Line), MAX_RATE);
    assert_eq!(aggregator.ends(), None, "nothing to sum up");

    let first = shown(&mut aggregator, began + SECOND, MAX_RATE + 10);
    assert_eq!(
        [LoggedAs::Line, LoggedAs::FirstSummary, LoggedAs::Summary].map(|which| count(&first, which)),
        [MAX_RATE, 1, 9]
    );
    let next = began + 2 * SECOND;
    assert_eq!(aggregator.ends(), Some(next));
    assert_eq!(finished_total(aggregator.end_period(next).as_ref()), 10);
    let storm = shown(&mut aggregator, next, 1000);
    assert_eq!(count(&storm, LoggedAs::Summary), 1000, "no line and no announcement while it lasts");
    assert_eq!(finished_total(aggregator.end_period(next + SECOND).as_ref()), 1000);
    let few = shown(&mut aggregator, next + SECOND, MAX_RATE);
    assert_eq!(count(&few, LoggedAs::Summary), MAX_RATE, "they follow the storm");
    assert_eq!(finished_total(aggregator.end_period(next + 2 * SECOND).as_ref()), u64::from(MAX_RATE));
    let few = shown(&mut aggregator, next + 2 * SECOND, MAX_RATE);
    assert_eq!(count(&few, LoggedAs::Line), MAX_RATE);
}

#[test]
fn a_pause_ends_the_summaries_although_nobody_looks() {
    let (mut aggregator, began) = (Aggregator::new(DecisionLines::Auto), Instant::now());
    shown(&mut aggregator, began, 100);
    let (shown, finished) = aggregator.add(began + 60 * SECOND, || decision("web"));
    assert_eq!(shown, LoggedAs::Line);
    assert_eq!(finished_total(finished.as_ref()), 80);
    assert_eq!(finished.unwrap().lasted, 60 * SECOND);

    let mut aggregator = Aggregator::new(DecisionLines::Auto);
    let all = [100, 1].map(|decisions| {
        let now = if decisions == 1 { began + 3 * SECOND } else { began };
        let shown = self::shown(&mut aggregator, now, decisions);
        drop(aggregator.end_period(now + SECOND));
        shown
    });
    assert_eq!(all[1], [LoggedAs::Line], "the second after the storm was quiet");
}

#[test]
fn the_setting_decides_without_a_rate() {
    for (lines, expected) in [
        (DecisionLines::All, LoggedAs::Line),
        (DecisionLines::Summaries, LoggedAs::Summary),
        (DecisionLines::None, LoggedAs::Hidden),
    ] {
        let (mut aggregator, now) = (Aggregator::new(lines), Instant::now());
        assert_eq!(count(&shown(&mut aggregator, now, 1000), expected), 1000, "{lines:?}");
        let sum = if lines == DecisionLines::Summaries { 1000 } else { 0 };
        assert_eq!(finished_total(aggregator.close(now).as_ref()), sum);
        let after = if lines == DecisionLines::None { LoggedAs::Hidden } else { LoggedAs::Line };
        assert_eq!(shown(&mut aggregator, now, 1), [after], "nobody ends another period");
    }
}

#[test]
fn the_owners_with_the_most_decisions_have_a_line_and_the_rest_is_summed_up() {
    let mut period = Period::default();
    for owner in 0..2 * MAX_LINES {
        for _ in 0..=owner {
            period.add(subject("shop", "ReplicaSet", &owner.to_string()), deleted("pods"));
        }
    }
    let summaries = period.take();
    let owners: Vec<_> = summaries.iter().filter(|line| matches!(line.of, SummaryOf::Owner(_))).collect();
    assert_eq!(owners.len(), MAX_LINES);
    assert_eq!(owners[0].counts.total(), 2 * MAX_LINES as u64);
    assert!(owners.iter().all(|line| line.counts.total() > MAX_LINES as u64));
    let SummaryOf::Kind(kind) = &summaries[MAX_LINES].of else { panic!("{summaries:?}") };
    assert_eq!((&*kind.kind, kind.namespace.as_ref().map(Namespace::as_str)), ("ReplicaSet", Some("shop")));
    assert_eq!(summaries[MAX_LINES].counts.total(), (1..=MAX_LINES as u64).sum::<u64>());
    assert_eq!(summaries.len(), MAX_LINES + 1);
    assert!(period.is_empty() && period.take().is_empty());
}

/// Whoever creates objects chooses the kinds, names and uids of their owners.
#[test]
fn invented_owners_and_kinds_take_neither_memory_nor_lines() {
    let mut period = Period::default();
    let number = 5 * MAX_SUMS;
    for owner in 0..number {
        let name = format!("{owner}{}", "x".repeat(200));
        period.add(subject("shop", &name, &name), deleted(&format!("widgets.{owner}.example.com")));
    }
    assert_eq!((period.owners.0.len(), period.kinds.0.len()), (MAX_SUMS, MAX_SUMS));
    let summaries = period.take();
    assert_eq!(summaries.len(), 2 * MAX_LINES + 1);
    assert_eq!(total(&summaries), number as u64);
    let others = &summaries.last().unwrap();
    assert_eq!(others.of, SummaryOf::Others);
    let counts: Value = serde_json::to_value(&others.counts).unwrap();
    assert_eq!(counts.as_array().map(Vec::len), Some(LISTED));
    let uncounted = number - 2 * MAX_LINES - LISTED;
    assert!(others.counts.to_string().ends_with(&format!("; {uncounted} others\"")), "{}", others.counts);
}

proptest! {
    /// Whenever decisions come, whatever they follow from, and whenever the task wakes up.
    #[test]
    fn each_decision_has_a_line_or_is_in_one_sum(
        steps in prop::collection::vec((0_u64..1500, 0_u32..60, 0_u32..30, any::<bool>()), 1..40)
    ) {
        let (mut aggregator, mut now) = (Aggregator::new(DecisionLines::Auto), Instant::now());
        let (mut decisions, mut lines, mut sums) = (0, 0, 0);
        for (pause, number, owner, is_woken) in steps {
            now += Duration::from_millis(pause);
            if is_woken {
                sums += finished_total(aggregator.end_period(now).as_ref());
            }
            for _ in 0..number {
                let (shown, finished) = aggregator.add(now, || decision(&owner.to_string()));
                sums += finished_total(finished.as_ref());
                lines += u64::from(shown == LoggedAs::Line);
                decisions += 1;
            }
        }
        sums += finished_total(aggregator.close(now).as_ref());
        prop_assert_eq!(lines + sums, decisions);
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    /// Captures the log of this thread until the guard is dropped.
    fn capture(format: LogFormat) -> (Self, tracing::subscriber::DefaultGuard) {
        let sink = Self::default();
        let writer = sink.clone();
        let settings = LogSettings { format, ..LogSettings::default() };
        let subscriber = logging::subscriber(&settings, false, move || writer.clone()).unwrap();
        (sink, tracing::subscriber::set_default(subscriber))
    }

    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_second_is_written_although_no_further_decision_follows() {
    let (sink, _guard) = Sink::capture(LogFormat::Json);
    let (summaries, task) = Summaries::new(DecisionLines::Summaries, CancellationToken::new());
    tokio::spawn(task);
    for _ in 0..3 {
        for _ in 0..500 {
            assert_eq!(summaries.add(|| decision("web")), LoggedAs::Summary);
        }
        tokio::task::yield_now().await;
        assert!(sink.lines().is_empty(), "the second is not over");
        advance(SECOND).await;
        tokio::task::yield_now().await;
        let lines = std::mem::take(&mut *sink.0.lock().unwrap());
        let line: Value = serde_json::from_slice(&lines).unwrap();
        assert_eq!(line["message"], "summary of decisions");
        let owner = json!({
            "api_version": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-of-web",
        });
        assert_eq!((&line["namespace"], &line["owner"]), (&json!("shop"), &owner));
        let counts = json!([{ "action": "delete", "resource": "pods", "outcome": "deleted", "count": 500 }]);
        assert_eq!((&line["count"], &line["counts"]), (&json!(500), &counts));
        assert_eq!(line["seconds"], 1.0);
        advance(10 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_the_collector_stops_or_is_dropped() {
    for stops in [true, false] {
        let (sink, _guard) = Sink::capture(LogFormat::Text);
        let ending = CancellationToken::new();
        let (summaries, task) = Summaries::new(DecisionLines::Auto, ending.clone());
        let task = tokio::spawn(task);
        for _ in 0..=MAX_RATE {
            summaries.add(|| decision("web"));
        }
        let announced = sink.lines();
        assert!(announced.len() == 1 && announced[0].contains("log.decisions = \"all\""), "{announced:?}");
        advance(SECOND / 4).await;
        if stops {
            summaries.close();
            assert_eq!(summaries.add(|| decision("late")), LoggedAs::Line);
        }
        ending.cancel();
        task.await.unwrap();
        drop(summaries);
        let lines = sink.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let expected = "summary of decisions namespace=\"shop\" \
                        owner=\"apps/v1/ReplicaSet, name: web, uid: uid-of-web\" count=1 \
                        counts=\"1 delete pods deleted\" seconds=0.25";
        assert!(lines[1].ends_with(expected), "{}", lines[1]);
    }
}

#[test]
fn a_kind_cannot_forge_a_line_or_a_field() {
    for format in [LogFormat::Text, LogFormat::Json] {
        let (sink, _guard) = Sink::capture(format);
        let kind = "x\" count=9 \u{1b}[2K\n2026 INFO all is well";
        let kind = Kind { namespace: None, api_version: "v1".into(), kind: kind.into() };
        let mut counts = Counts::default();
        counts.add(deleted("pods"));
        let summaries = vec![Summary { of: SummaryOf::Kind(kind), counts }];
        write(Some(Finished { lasted: SECOND, summaries }));
        let lines = sink.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        match format {
            LogFormat::Text => {
                assert!(lines[0].contains(r#"owner="v1/x\" count=9 \u{1b}[2K\n"#), "{lines:?}");
            }
            LogFormat::Json => {
                let line: Value = serde_json::from_str(&lines[0]).unwrap();
                assert_eq!(line["count"], 1);
                assert_eq!(line["message"], "summary of decisions: other owners of this kind");
            }
        }
    }
}
