//! S1: which pod sandboxes go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use crate::mutation::{self, Mutation};
use crate::pods::{PodState, Pods, is_whole};
use crate::rule::Decision;
use crate::rules::{BesideKubelet, Kubelet};
use crate::view::{Sandbox, SandboxState, duplicates, is_uid};
use crate::{Rule, Rules, RuntimeView, Timestamp};

/// S1, `evictSandboxes` in `kuberuntime_gc.go`: a sandbox goes if it is not ready and has no
/// containers. Of a pod that is not gone the newest stays, whatever its state.
///
/// `remaining` are the ids of the sandboxes that still have containers when all of this plan's
/// containers have gone. Decides about every sandbox, in the order of the view.
pub fn decide(
    runtime: &RuntimeView,
    pods: &Pods<'_>,
    rules: &Rules,
    has_containers: impl Fn(&str) -> bool,
    under_pressure: bool,
) -> Vec<Decision> {
    let sandboxes = &runtime.sandboxes;
    let ambiguous = duplicates(sandboxes.iter().map(|sandbox| sandbox.id.as_str()));
    let mut decisions: Vec<Decision> =
        sandboxes.iter().map(|sandbox| active(sandbox, &ambiguous, &has_containers)).collect();
    let mut by_pod: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, sandbox) in sandboxes.iter().enumerate() {
        by_pod.entry(&sandbox.uid).or_default().push(index);
    }
    for (uid, mut of_pod) in by_pod {
        of_pod.sort_by_key(|&index| newest_first(&sandboxes[index]));
        if !is_uid(uid) {
            for index in of_pod {
                decisions[index].overrule(Rule::Safety1, "the uid of its pod is not a valid one");
            }
            continue;
        }
        let all_go = match pods.state(uid) {
            PodState::Gone(why) => Some(why.to_string()),
            PodState::Terminated if under_pressure => {
                Some("its pod has terminated, under pressure".to_owned())
            }
            PodState::Active | PodState::Terminated | PodState::Unknown(_) => None,
        };
        for (age, index) in of_pod.into_iter().enumerate() {
            let decision = &mut decisions[index];
            match &all_go {
                _ if !decision.removes => {}
                Some(why) => decision.reason.to_mut().extend(["; ", why.as_str()]),
                None if age == 0 => decision.overrule(Rule::S1, "it is the newest sandbox of its pod"),
                None => decision.reason.to_mut().push_str("; its pod has a newer one"),
            }
        }
    }
    for decision in &mut decisions {
        if !is_whole(runtime) {
            decision.overrule(Rule::B1, "sandboxes wait for whole lists");
        }
        if matches!(rules.kubelet, Kubelet::Beside(BesideKubelet::Images)) {
            decision.overrule(Rule::Safety3, "beside a kubelet, only images go");
        }
    }
    decisions
}

/// Newest first, as `sandboxByCreated` in `kuberuntime_gc.go`.
fn newest_first(sandbox: &Sandbox) -> Reverse<(Timestamp, u32, &str)> {
    Reverse((sandbox.created_at, sandbox.attempt, &sandbox.id))
}

/// Whether a sandbox may go at all.
fn active(sandbox: &Sandbox, ambiguous: &HashSet<&str>, has_containers: impl Fn(&str) -> bool) -> Decision {
    let id = sandbox.id.as_str();
    if id.is_empty() || (ambiguous.contains(id) && !mutation::is(Mutation::DuplicatesMayGo)) {
        return Decision::keep(Rule::Safety1, "it cannot be told from another sandbox");
    }
    if sandbox.state == SandboxState::Ready && !mutation::is(Mutation::ReadyMayGo) {
        return Decision::keep(Rule::S1, "it is ready");
    }
    if has_containers(id) && !mutation::is(Mutation::SandboxWithContainersMayGo) {
        return Decision::keep(Rule::S1, "it still has containers");
    }
    Decision::remove(Rule::S1, "not ready, without containers")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::PodView;
    use crate::testing::{NOW, container, files, listed, pod, proof, sandbox, uid};
    use crate::view::{Answer, Extent, Phase};

    fn not_ready(id: &str, pod: u64, age: u64) -> Sandbox {
        let mut sandbox = sandbox(id, &uid(pod));
        sandbox.state = SandboxState::NotReady;
        sandbox.created_at = NOW.minus(Duration::from_secs(age));
        sandbox
    }

    fn gone(runtime: &RuntimeView, view: &PodView, pressure: bool) -> Vec<String> {
        let files = files();
        let pods = Pods::of(runtime, view, &files);
        let has_containers = |id: &str| runtime.containers.iter().any(|container| container.sandbox_id == id);
        let decisions = decide(runtime, &pods, &Rules::default(), has_containers, pressure);
        let pairs = runtime.sandboxes.iter().zip(decisions);
        pairs.filter(|(_, decision)| decision.removes).map(|(sandbox, _)| sandbox.id.clone()).collect()
    }

    fn with(sandboxes: Vec<Sandbox>) -> RuntimeView {
        RuntimeView { sandboxes, ..RuntimeView::default() }
    }

    #[test]
    fn s1_a_living_pod_keeps_its_newest_sandbox_whatever_its_state() {
        let mut ready = not_ready("ready", 2, 30);
        ready.state = SandboxState::Ready;
        let runtime = with(vec![
            not_ready("old", 1, 20),
            not_ready("new", 1, 10),
            ready,
            not_ready("newer than ready", 2, 5),
        ]);
        let view = listed(vec![pod(1), pod(2)], vec![]);
        assert_eq!(gone(&runtime, &view, false), ["old"]);
        assert_eq!(gone(&runtime, &PodView::None, false), ["old"]);
    }

    #[test]
    fn s1_of_a_pod_that_is_gone_all_go_but_ready_ones() {
        let mut ready = not_ready("ready", 2, 30);
        ready.state = SandboxState::Ready;
        let runtime = with(vec![not_ready("a", 1, 20), not_ready("b", 1, 10), ready]);
        let view = listed(vec![pod(2)], vec![proof(1, Answer::NotFound)]);
        assert_eq!(gone(&runtime, &view, false), ["a", "b"]);
    }

    #[test]
    fn s1_a_sandbox_with_containers_stays() {
        let mut runtime = with(vec![not_ready("a", 1, 20)]);
        runtime.containers.push(container("c", &uid(1), "web", "a"));
        runtime.containers[0].sandbox_id = "a".to_owned();
        let view = listed(vec![], vec![proof(1, Answer::NotFound)]);
        assert_eq!(gone(&runtime, &view, false), Vec::<String>::new());
    }

    #[test]
    fn s1_those_of_a_terminated_pod_go_only_under_pressure() {
        let mut ended = pod(1);
        ended.phase = Phase::Succeeded;
        let view = listed(vec![ended], vec![]);
        let runtime = with(vec![not_ready("a", 1, 20)]);
        assert_eq!(gone(&runtime, &view, false), Vec::<String>::new());
        assert_eq!(gone(&runtime, &view, true), ["a"]);
    }

    #[test]
    fn s1_waits_for_whole_lists_of_both_kinds() {
        let view = listed(vec![], vec![proof(1, Answer::NotFound)]);
        let whole = with(vec![not_ready("a", 1, 20)]);
        for change in [
            (|runtime: &mut RuntimeView| runtime.containers_extent = Extent::Slice) as fn(&mut RuntimeView),
            |runtime| runtime.sandboxes_extent = Extent::Slice,
        ] {
            let mut slice = whole.clone();
            change(&mut slice);
            assert_eq!(gone(&slice, &view, false), Vec::<String>::new());
        }
        assert_eq!(gone(&whole, &view, false), ["a"]);
    }

    #[test]
    fn sandboxes_that_make_no_sense_stay() {
        let mut nameless = not_ready("", 1, 20);
        nameless.id = String::new();
        let mut odd = not_ready("odd", 1, 20);
        odd.uid = "../x".to_owned();
        let runtime = with(vec![
            nameless,
            odd.clone(),
            odd,
            not_ready("twin", 3, 20),
            not_ready("twin", 3, 10),
            not_ready("newest", 3, 1),
        ]);
        assert_eq!(gone(&runtime, &PodView::None, false), Vec::<String>::new());
    }
}
