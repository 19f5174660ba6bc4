use super::*;
use crate::testing::{confirmed, container, files, listed, pod, proof, sandbox, uid};
use crate::view::Sandbox;

fn state(runtime: &RuntimeView, view: &PodView, uid: &str) -> PodState {
    Pods::of(runtime, view, &files()).state_of_container(uid)
}

fn one_dead() -> RuntimeView {
    let mut dead = sandbox("s1", &uid(1));
    dead.state = SandboxState::NotReady;
    let containers = vec![container("c1", &uid(1), "web", "a")];
    RuntimeView { sandboxes: vec![dead], containers, ..RuntimeView::default() }
}

#[test]
fn c3_a_missing_pod_is_gone_only_by_its_own_404_or_another_uid() {
    let with = |answer| {
        let mut runtime = one_dead();
        let view = confirmed(&mut runtime, vec![proof(1, answer)]);
        state(&runtime, &view, &uid(1))
    };
    assert_eq!(with(Answer::NotFound), PodState::Gone(GoneReason::NotFound));
    assert_eq!(with(Answer::OtherUid { mirror_of: None }), PodState::Gone(GoneReason::Replaced));
    let mirror = Answer::OtherUid { mirror_of: Some(uid(1)) };
    assert_eq!(with(mirror), PodState::Unknown(UnknownReason::Static));
    assert_eq!(with(Answer::SameUid), PodState::Unknown(UnknownReason::Unproved));
    assert_eq!(with(Answer::Failed), PodState::Unknown(UnknownReason::Unproved));
    let unasked = state(&one_dead(), &listed(vec![], vec![]), &uid(1));
    assert_eq!(unasked, PodState::Unknown(UnknownReason::Unproved));
    let cached = Listed { proofs: vec![proof(1, Answer::NotFound)], ..Listed::default() };
    let cached = state(&one_dead(), &PodView::Listed(cached), &uid(1));
    assert_eq!(cached, PodState::Unknown(UnknownReason::Inconsistent));
}

/// Right after a reboot no sandbox is ready, and the kubeconfig may be that of another cluster.
#[test]
fn c3_answers_count_only_if_the_list_has_another_pod_of_the_runtime() {
    for (answer, gone) in [
        (Answer::NotFound, GoneReason::NotFound),
        (Answer::OtherUid { mirror_of: None }, GoneReason::Replaced),
        (Answer::Forbidden, GoneReason::NotFound),
    ] {
        let view = listed(vec![pod(2)], vec![proof(1, answer)]);
        assert_eq!(state(&one_dead(), &view, &uid(1)), PodState::Unknown(UnknownReason::Unconfirmed));
        let (mut with_sandbox, mut with_container) = (one_dead(), one_dead());
        with_sandbox.sandboxes.push(Sandbox { state: SandboxState::NotReady, ..sandbox("s2", &uid(2)) });
        with_container.containers.push(container("c2", &uid(2), "web", "a"));
        for runtime in [with_sandbox, with_container] {
            assert_eq!(state(&runtime, &view, &uid(1)), PodState::Gone(gone));
        }
    }
}

#[test]
fn c3_an_answer_about_another_name_proves_nothing() {
    let mut other = proof(1, Answer::NotFound);
    other.pod.name = "somebody-else".to_owned();
    let state = state(&one_dead(), &listed(vec![], vec![other]), &uid(1));
    assert_eq!(state, PodState::Unknown(UnknownReason::Unproved));
}

#[test]
fn c3_evicted_and_deleted_pods_are_gone_and_c4_ended_ones_terminated() {
    let runtime = one_dead();
    let with = |change: fn(&mut Pod)| {
        let mut pod = pod(1);
        change(&mut pod);
        state(&runtime, &listed(vec![pod], vec![]), &uid(1))
    };
    assert_eq!(with(|_| {}), PodState::Active);
    assert_eq!(with(|pod| pod.phase = Phase::Succeeded), PodState::Terminated);
    assert_eq!(with(|pod| pod.phase = Phase::Failed), PodState::Terminated);
    let evicted = |pod: &mut Pod| (pod.phase, pod.evicted) = (Phase::Failed, true);
    assert_eq!(with(evicted), PodState::Gone(GoneReason::Evicted));
    let deleted = |pod: &mut Pod| (pod.deleting, pod.containers_running) = (true, false);
    assert_eq!(with(deleted), PodState::Gone(GoneReason::Deleted));
    let ending = |pod: &mut Pod| (pod.deleting, pod.containers_running) = (true, true);
    assert_eq!(with(ending), PodState::Active);
}

#[test]
fn without_its_sandbox_a_hash_may_be_a_static_pod() {
    let hash = "0123456789abcdef0123456789abcdef";
    let mut runtime = one_dead();
    runtime.sandboxes.clear();
    runtime.containers[0].pod_uid = hash.to_owned();
    let mut answer = proof(1, Answer::NotFound);
    answer.pod.uid = hash.to_owned();
    let view = confirmed(&mut runtime, vec![answer]);
    assert_eq!(state(&runtime, &view, hash), PodState::Unknown(UnknownReason::MaybeStatic));
}

#[test]
fn a_uid_with_two_names_is_unknown() {
    let mut runtime = one_dead();
    let mut liar = container("c2", &uid(1), "web", "a");
    liar.pod_name = "another".to_owned();
    runtime.containers.push(liar);
    let view = listed(vec![], vec![proof(1, Answer::NotFound)]);
    assert_eq!(state(&runtime, &view, &uid(1)), PodState::Unknown(UnknownReason::SeveralNames));
}

#[test]
fn only_plausible_missing_pods_are_asked_about_and_each_once() {
    let mut runtime = one_dead();
    runtime.containers.push(container("c2", &uid(1), "sidecar", "a"));
    runtime.containers.push(container("c3", "../../etc", "web", "a"));
    runtime.containers.push(container("c4", &uid(2), "web", "a"));
    let asked = needing_proof(&runtime, &listed(vec![pod(2)], vec![]), &files());
    assert_eq!(asked, [pod(1).pod]);
    assert!(needing_proof(&runtime, &PodView::None, &files()).is_empty());
}

#[test]
fn no_more_pods_are_asked_about_than_a_pass_can_bear() {
    let containers = (0..5000).map(|n| container(&format!("c{n}"), &uid(n), "web", "a"));
    let runtime = RuntimeView { containers: containers.collect(), ..RuntimeView::default() };
    assert_eq!(needing_proof(&runtime, &listed(vec![], vec![]), &files()).len(), MOST_PROOFS);
}
