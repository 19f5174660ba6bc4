//! What the kubelet does not do, or does otherwise. The suite `kubelet` holds C1 to C7 against its functions.

use std::time::Duration;

use super::*;
use crate::PodView;
use crate::rules::Effects;
use crate::testing::{NOW, container, files, listed, pod, sandbox, uid};

const STEADY: Clock = Clock { now: NOW, steady: Duration::MAX };

/// The ids that go, with their rules, of these containers.
fn gone(containers: Vec<Container>, view: &PodView, rules: &Rules) -> Vec<(String, Rule)> {
    gone_of(&RuntimeView { containers, ..RuntimeView::default() }, view, rules)
}

fn gone_of(runtime: &RuntimeView, view: &PodView, rules: &Rules) -> Vec<(String, Rule)> {
    let files = files();
    let pods = Pods::of(runtime, view, &files);
    let decisions = decide(runtime, &pods, rules, STEADY, false);
    let pairs = runtime.containers.iter().zip(decisions);
    let mut gone: Vec<_> = pairs
        .filter(|(_, decision)| decision.removes)
        .map(|(container, decision)| (container.id.clone(), decision.rule))
        .collect();
    gone.sort();
    gone
}

/// A dead container that was created so many seconds ago.
fn dead(id: &str, pod: u64, name: &str, age: u64) -> Container {
    let mut container = container(id, &uid(pod), name, "a");
    container.created_at = NOW.minus(Duration::from_secs(age));
    container
}

fn pairs(expected: &[(&str, Rule)]) -> Vec<(String, Rule)> {
    expected.iter().map(|(id, rule)| ((*id).to_owned(), *rule)).collect()
}

/// Nothing stays but by C1.
fn none_stay() -> Rules {
    let mut rules = Rules::default();
    rules.containers.max_per_container = Some(0);
    rules
}

#[test]
fn c6_waits_for_a_whole_list_and_c5_does_not() {
    let containers = vec![dead("a1", 1, "a", 1), dead("a2", 1, "a", 2), dead("b1", 1, "b", 3)];
    let runtime = RuntimeView { containers, containers_extent: Extent::Slice, ..RuntimeView::default() };
    let mut rules = Rules::default();
    rules.containers.max_total = Some(1);
    assert_eq!(gone_of(&runtime, &PodView::None, &rules), pairs(&[("a2", Rule::C5)]));
}

#[test]
fn beside_a_kubelet_a_container_without_labels_is_no_newer_instance() {
    let mut unlabelled = dead("newer", 1, "web", 10);
    unlabelled.pod_uid = String::new();
    unlabelled.sandbox_id = "s".to_owned();
    let containers = vec![dead("instance", 1, "web", 20), unlabelled];
    let sandboxes = vec![sandbox("s", &uid(1))];
    let runtime = RuntimeView { containers, sandboxes, ..RuntimeView::default() };
    let view = listed(vec![pod(1)], vec![]);
    let mut rules = Rules::default();
    assert_eq!(gone_of(&runtime, &view, &rules), pairs(&[("instance", Rule::C5)]));
    rules.beside_kubelet = Some(Effects::All);
    assert_eq!(gone_of(&runtime, &view, &rules), []);
}

#[test]
fn containers_that_make_no_sense_stay() {
    type Change = fn(&mut Container);
    let changes: &[Change] = &[
        |container| container.id = String::new(),
        |container| container.name = String::new(),
        |container| container.pod_uid = String::new(),
        |container| container.pod_uid = "../../etc".to_owned(),
        |container| container.pod_uid = "x".repeat(100_000),
        |container| container.created_at = Timestamp::from_nanos(0),
        |container| container.created_at = Timestamp::from_nanos(i64::MIN),
        |container| container.created_at = Timestamp::from_nanos(i64::MAX),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut odd = dead("a", 1, "web", 20);
        change(&mut odd);
        assert_eq!(gone(vec![odd], &PodView::None, &none_stay()), [], "case {index}");
    }
    let twins = vec![dead("a", 1, "web", 20), dead("a", 1, "web", 10)];
    assert_eq!(gone(twins, &PodView::None, &none_stay()), []);
}

#[test]
fn the_sandbox_tells_the_pod_if_no_label_does_and_must_not_contradict_it() {
    let mut unlabelled = dead("a", 1, "web", 20);
    unlabelled.pod_uid = String::new();
    let sandboxes = vec![sandbox("s", &uid(7))];
    let mut runtime = RuntimeView { containers: vec![unlabelled], sandboxes, ..RuntimeView::default() };
    runtime.containers[0].sandbox_id = "s".to_owned();
    assert_eq!(gone_of(&runtime, &PodView::None, &none_stay()).len(), 1);
    runtime.containers[0].pod_uid = uid(1);
    assert_eq!(gone_of(&runtime, &PodView::None, &none_stay()), []);
}

#[test]
fn c1_a_clock_that_was_set_forward_makes_no_container_old_and_one_that_was_set_back_keeps_what_is_to_come() {
    let mut created = dead("created", 1, "web", 600);
    created.state = ContainerState::Created;
    let mut future = dead("future", 1, "db", 0);
    future.created_at = NOW.plus(Duration::from_secs(600));
    let runtime = RuntimeView {
        containers: vec![dead("exited", 1, "app", 600), created, future],
        ..RuntimeView::default()
    };
    let (no_files, mut rules) = (files(), none_stay());
    rules.containers.min_age = Duration::from_secs(60);
    let pods = Pods::of(&runtime, &PodView::None, &no_files);
    for (seconds, expected) in [(10, [false; 3]), (60, [true, false, false]), (300, [true, true, false])] {
        let clock = Clock { now: NOW, steady: Duration::from_secs(seconds) };
        let decisions = decide(&runtime, &pods, &rules, clock, false);
        assert_eq!(decisions.iter().map(|decision| decision.removes).collect::<Vec<_>>(), expected);
        assert!(decisions[2].reason.contains("not been created yet"), "{}", decisions[2].reason);
    }
}

#[test]
fn c5_the_last_attempt_stays_although_the_clock_was_set_back_before_it() {
    let mut last = dead("last", 1, "web", 1000);
    last.attempt = 4;
    let mut before = dead("before", 1, "web", 400);
    before.attempt = 3;
    let gone = gone(vec![before, last], &PodView::None, &Rules::default());
    assert_eq!(gone, pairs(&[("before", Rule::C5)]));
}
