//! S1: which pod sandboxes go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use crate::mutation::{self, Mutation};
use crate::pods::{PodState, Pods};
use crate::rule::Decision;
use crate::view::{Sandbox, SandboxState, duplicates, is_uid};
use crate::{Rule, RuntimeView, Timestamp};

/// S1, `evictSandboxes` in `kuberuntime_gc.go`: a sandbox goes if it is not ready and has no
/// containers. Of a pod that is not gone the newest stays, whatever its state.
///
/// `remaining` are the ids of the sandboxes that still have containers when all of this plan's
/// containers have gone. Decides about every sandbox, in the order of the view.
pub fn decide(
    runtime: &RuntimeView,
    pods: &Pods<'_>,
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
    decisions
}

/// Newest first, as `sandboxByCreated` in `kuberuntime_gc.go`.
fn newest_first(sandbox: &Sandbox) -> Reverse<(Timestamp, u32, &str)> {
    Reverse((sandbox.created_at, sandbox.attempt, &sandbox.id))
}

/// Whether a sandbox may go at all.
fn active(sandbox: &Sandbox, ambiguous: &HashSet<&str>, has_containers: impl Fn(&str) -> bool) -> Decision {
    let id = sandbox.id.as_str();
    if id.is_empty() || ambiguous.contains(id) {
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
    use crate::testing::{NOW, files, sandbox, uid};
    use crate::{Files, PodView};

    fn not_ready(id: &str, pod: u64, age: u64) -> Sandbox {
        let created_at = NOW.minus(Duration::from_secs(age));
        Sandbox { state: SandboxState::NotReady, created_at, ..sandbox(id, &uid(pod)) }
    }

    #[test]
    fn sandboxes_that_make_no_sense_stay() {
        let odd = Sandbox { uid: "../x".to_owned(), ..not_ready("odd", 1, 20) };
        let twins = [not_ready("twin", 3, 20), not_ready("twin", 3, 10)];
        let others = [not_ready("", 1, 20), odd.clone(), odd, not_ready("newest", 3, 1)];
        let runtime =
            RuntimeView { sandboxes: [twins.to_vec(), others.to_vec()].concat(), ..RuntimeView::default() };
        let no_files: Files = files();
        let pods = Pods::of(&runtime, &PodView::None, &no_files);
        let decisions = decide(&runtime, &pods, |_| false, false);
        assert!(decisions.iter().all(|decision| !decision.removes), "{decisions:?}");
    }
}
