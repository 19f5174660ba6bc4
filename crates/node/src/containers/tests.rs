use std::time::Duration;

use super::*;
use crate::PodView;
use crate::testing::{NOW, container, files, listed, pod, proof, sandbox, uid};
use crate::view::{Answer, Phase};

/// The ids that go, with their rules, of these containers.
fn gone(containers: Vec<Container>, view: &PodView, rules: &Rules, pressure: bool) -> Vec<(String, Rule)> {
    let runtime = RuntimeView { containers, ..RuntimeView::default() };
    gone_of(&runtime, view, rules, pressure)
}

fn gone_of(runtime: &RuntimeView, view: &PodView, rules: &Rules, pressure: bool) -> Vec<(String, Rule)> {
    let files = files();
    let pods = Pods::of(runtime, view, &files);
    let decisions = decide(runtime, &pods, rules, NOW, pressure);
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
fn c1_only_what_does_not_run_and_is_old_enough_goes() {
    let mut running = dead("running", 1, "web", 500);
    running.state = ContainerState::Running;
    let containers =
        vec![running, dead("young", 1, "a", 59), dead("old", 1, "b", 60), dead("later", 1, "c", 0)];
    let mut rules = none_stay();
    rules.containers.min_age = Duration::from_secs(60);
    assert_eq!(gone(containers, &PodView::None, &rules, false), pairs(&[("old", Rule::C5)]));
}

#[test]
fn c2_containers_of_one_name_in_different_pods_are_not_counted_together() {
    let containers = vec![dead("a", 1, "web", 9), dead("b", 2, "web", 8), dead("c", 1, "sidecar", 7)];
    assert_eq!(gone(containers, &PodView::None, &Rules::default(), false), []);
}

#[test]
fn c3_of_a_pod_that_is_gone_all_dead_containers_go() {
    let mut running = dead("running", 1, "sidecar", 500);
    running.state = ContainerState::Running;
    let containers = vec![dead("old", 1, "web", 9), dead("new", 1, "web", 8), running];
    let view = listed(vec![], vec![proof(1, Answer::NotFound)]);
    let expected = pairs(&[("new", Rule::C3), ("old", Rule::C3)]);
    assert_eq!(gone(containers, &view, &Rules::default(), false), expected);
}

#[test]
fn c4_those_of_a_terminated_pod_go_only_under_pressure() {
    let mut ended = pod(1);
    ended.phase = Phase::Succeeded;
    let view = listed(vec![ended], vec![]);
    let containers = vec![dead("only", 1, "web", 9)];
    assert_eq!(gone(containers.clone(), &view, &Rules::default(), false), []);
    let expected = pairs(&[("only", Rule::C4)]);
    assert_eq!(gone(containers, &view, &Rules::default(), true), expected);
}

#[test]
fn c5_the_newest_by_creation_stay() {
    let mut newest_attempt = dead("c", 1, "web", 30);
    newest_attempt.attempt = 9;
    let containers = vec![dead("a", 1, "web", 10), dead("b", 1, "web", 20), newest_attempt];
    let expected = pairs(&[("b", Rule::C5), ("c", Rule::C5)]);
    assert_eq!(gone(containers.clone(), &PodView::None, &Rules::default(), false), expected);
    let mut rules = Rules::default();
    rules.containers.max_per_container = None;
    assert_eq!(gone(containers, &PodView::None, &rules, false), []);
}

#[test]
fn c6_each_name_keeps_its_share_and_at_least_one_then_the_oldest_go() {
    let mut rules = Rules::default();
    rules.containers.max_per_container = None;
    rules.containers.max_total = Some(4);
    let containers = vec![
        dead("a1", 1, "a", 1),
        dead("a2", 1, "a", 2),
        dead("a3", 1, "a", 3),
        dead("b1", 1, "b", 10),
        dead("b2", 1, "b", 11),
        dead("b3", 1, "b", 12),
    ];
    // Two of each name stay: not the four newest of all.
    let expected = pairs(&[("a3", Rule::C6), ("b3", Rule::C6)]);
    assert_eq!(gone(containers.clone(), &PodView::None, &rules, false), expected);
    // A share of less than one is one, and then the oldest of all goes.
    rules.containers.max_total = Some(1);
    let gone = gone(containers, &PodView::None, &rules, false);
    assert_eq!(gone.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a2", "a3", "b1", "b2", "b3"]);
}

#[test]
fn c6_waits_for_a_whole_list_and_c5_does_not() {
    let containers = vec![dead("a1", 1, "a", 1), dead("a2", 1, "a", 2), dead("b1", 1, "b", 3)];
    let runtime = RuntimeView { containers, containers_extent: Extent::Slice, ..RuntimeView::default() };
    let mut rules = Rules::default();
    rules.containers.max_total = Some(1);
    assert_eq!(gone_of(&runtime, &PodView::None, &rules, false), pairs(&[("a2", Rule::C5)]));
}

#[test]
fn c7_only_an_unknown_container_is_stopped_first() {
    let stopped =
        [ContainerState::Created, ContainerState::Running, ContainerState::Exited, ContainerState::Unknown]
            .map(c7_stops_first);
    assert_eq!(stopped, [false, false, false, true]);
}

#[test]
fn beside_a_kubelet_the_newest_dead_instance_stays_unless_its_pod_is_gone() {
    let mut rules = none_stay();
    rules.kubelet = Kubelet::Beside(BesideKubelet::All);
    let containers = vec![dead("old", 1, "web", 20), dead("new", 1, "web", 10)];
    let expected = pairs(&[("old", Rule::C5)]);
    assert_eq!(gone(containers.clone(), &listed(vec![pod(1)], vec![]), &rules, false), expected);
    let view = listed(vec![], vec![proof(1, Answer::NotFound)]);
    assert_eq!(gone(containers.clone(), &view, &rules, false).len(), 2);
    rules.kubelet = Kubelet::Absent;
    assert_eq!(gone(containers, &listed(vec![pod(1)], vec![]), &rules, false).len(), 2);
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
    assert_eq!(gone_of(&runtime, &view, &rules, false), pairs(&[("instance", Rule::C5)]));
    rules.kubelet = Kubelet::Beside(BesideKubelet::All);
    assert_eq!(gone_of(&runtime, &view, &rules, false), []);
}

#[test]
fn beside_a_kubelet_only_images_go_if_that_is_asked_for() {
    let rules = Rules { kubelet: Kubelet::Beside(BesideKubelet::Images), ..none_stay() };
    let view = listed(vec![], vec![proof(1, Answer::NotFound)]);
    assert_eq!(gone(vec![dead("a", 1, "web", 20)], &view, &rules, false), []);
}

#[test]
fn a_container_that_was_just_created_stays() {
    let created = |age| {
        let mut created = dead("a", 1, "web", age);
        created.state = ContainerState::Created;
        created
    };
    assert_eq!(gone(vec![created(299)], &PodView::None, &none_stay(), false), []);
    assert_eq!(gone(vec![created(300)], &PodView::None, &none_stay(), false).len(), 1);
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
        assert_eq!(gone(vec![odd], &PodView::None, &none_stay(), false), [], "case {index}");
    }
    let twins = vec![dead("a", 1, "web", 20), dead("a", 1, "web", 10)];
    assert_eq!(gone(twins, &PodView::None, &none_stay(), false), []);
}

#[test]
fn the_sandbox_tells_the_pod_if_no_label_does_and_must_not_contradict_it() {
    let mut unlabelled = dead("a", 1, "web", 20);
    unlabelled.pod_uid = String::new();
    let sandboxes = vec![sandbox("s", &uid(7))];
    let mut runtime = RuntimeView { containers: vec![unlabelled], sandboxes, ..RuntimeView::default() };
    runtime.containers[0].sandbox_id = "s".to_owned();
    assert_eq!(gone_of(&runtime, &PodView::None, &none_stay(), false).len(), 1);
    runtime.containers[0].pod_uid = uid(1);
    assert_eq!(gone_of(&runtime, &PodView::None, &none_stay(), false), []);
}
