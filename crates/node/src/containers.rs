//! C1 to C7: which dead containers go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::mutation::{self, Mutation};
use crate::pods::{PodState, Pods};
use crate::rule::{Decision, words};
use crate::view::{Container, ContainerState, Extent, duplicates, is_uid};
use crate::{Clock, Rule, Rules, RuntimeView, Timestamp};

/// The containers of one pod uid and one name (C2: `evictableContainers` in `kuberuntime_gc.go`).
type Unit<'a> = (&'a str, &'a str);

/// Decides about every container, in the order of the view.
pub fn decide(
    runtime: &RuntimeView,
    pods: &Pods<'_>,
    rules: &Rules,
    clock: Clock,
    under_pressure: bool,
) -> Vec<Decision> {
    let uids = pod_uids(runtime);
    let ambiguous = duplicates(runtime.containers.iter().map(|container| container.id.as_str()));
    let mut decisions: Vec<Decision> = Vec::with_capacity(runtime.containers.len());
    let mut units: BTreeMap<Unit<'_>, Vec<usize>> = BTreeMap::new();
    for (index, container) in runtime.containers.iter().enumerate() {
        let not_a_candidate =
            unusable(container, uids[index], &ambiguous).or_else(|| c1(container, rules, clock));
        decisions.push(match (not_a_candidate, uids[index]) {
            (Some(decision), _) => decision,
            (None, Ok(uid)) => {
                units.entry((uid, &container.name)).or_default().push(index);
                Decision::keep(Rule::C5, "one of the newest dead instances of this container")
            }
            (None, Err(why)) => Decision::keep(Rule::Safety1, why),
        });
    }
    for unit in units.values_mut() {
        unit.sort_by_key(|&index| last_attempt_first(&runtime.containers[index]));
    }
    c3_and_c4(&mut units, pods, under_pressure, &mut decisions);
    c5(&mut units, rules, &mut decisions);
    c6(&mut units, runtime, rules, &mut decisions);
    keep_newest_dead(runtime, &uids, pods, rules, &mut decisions);
    decisions
}

/// Newest first, as `byCreated` in `kuberuntime_gc.go`; what it leaves open, attempt and id decide.
fn newest_first(container: &Container) -> Reverse<(Timestamp, u32, &str)> {
    Reverse((container.created_at, container.attempt, &container.id))
}

/// Newest first among the containers of a unit: the kubelet counts its attempts, and unlike the time of day, they never
/// go back.
fn last_attempt_first(container: &Container) -> Reverse<(u32, Timestamp, &str)> {
    Reverse((container.attempt, container.created_at, &container.id))
}

/// The uid of each container's pod: by its label, else by its sandbox. If both are there, they must
/// agree.
fn pod_uids(runtime: &RuntimeView) -> Vec<Result<&str, &'static str>> {
    let mut sandboxes: HashMap<&str, Option<&str>> = HashMap::new();
    for sandbox in &runtime.sandboxes {
        let uid = sandboxes.entry(&sandbox.id).or_insert(Some(&sandbox.uid));
        if *uid != Some(&sandbox.uid) {
            *uid = None;
        }
    }
    let containers = runtime.containers.iter().map(|container| {
        let uid = match (container.pod_uid.as_str(), sandboxes.get(container.sandbox_id.as_str())) {
            (_, Some(None)) => return Err("its sandbox cannot be told from another"),
            ("", Some(Some(of_sandbox))) => of_sandbox,
            ("", None) => return Err("nothing tells which pod it belongs to"),
            (label, Some(Some(of_sandbox))) if label != *of_sandbox => {
                return Err("its label and its sandbox name different pods");
            }
            (label, _) => label,
        };
        if is_uid(uid) { Ok(uid) } else { Err("the uid of its pod is not a valid one") }
    });
    containers.collect()
}

/// Containers of which the runtime says too little, or nonsense, to judge them.
fn unusable(
    container: &Container,
    uid: Result<&str, &'static str>,
    ambiguous: &HashSet<&str>,
) -> Option<Decision> {
    let keep = |reason| Some(Decision::keep(Rule::Safety1, reason));
    if container.id.is_empty() || container.name.is_empty() {
        return keep("it has no id or no name");
    }
    if ambiguous.contains(container.id.as_str()) {
        return keep("another container has the same id");
    }
    if container.state == ContainerState::Running {
        return None;
    }
    if let Err(why) = uid {
        return keep(why);
    }
    (!container.created_at.is_known())
        .then(|| Decision::keep(Rule::Safety1, "it is not known when it was created"))
}

/// C1, `evictableContainers` in `kuberuntime_gc.go`: only what is not running and was created at
/// least `min_age` ago. Besides, a container that was just created is about to be started.
fn c1(container: &Container, rules: &Rules, clock: Clock) -> Option<Decision> {
    let keep = |rule, reason: String| Some(Decision::keep(rule, reason));
    if container.state == ContainerState::Running && !mutation::is(Mutation::RunningMayGo) {
        return Some(Decision::keep(Rule::C1, "it is running"));
    }
    let created_at = container.created_at;
    if created_at > clock.now {
        return keep(Rule::C1, "by the clock of this host, it has not been created yet".to_owned());
    }
    let min_age = rules.containers.min_age;
    if !clock.is_past(created_at, min_age) {
        return keep(Rule::C1, format!("it was created less than {} ago", words(min_age)));
    }
    let grace = rules.created_grace;
    let young = container.state == ContainerState::Created && !clock.is_past(created_at, grace);
    if young && !grace.is_zero() {
        return keep(
            Rule::Safety3,
            format!("it was created less than {} ago and may be about to start", words(grace)),
        );
    }
    None
}

/// C3 and C4, `evictContainers` in `kuberuntime_gc.go`: of pods that are gone, and under pressure of
/// pods that have terminated, all candidates go.
fn c3_and_c4(
    units: &mut BTreeMap<Unit<'_>, Vec<usize>>,
    pods: &Pods<'_>,
    under_pressure: bool,
    decisions: &mut [Decision],
) {
    units.retain(|(uid, _), unit| {
        let decision = match pods.state_of_container(uid) {
            PodState::Gone(why) => Decision::remove(Rule::C3, why.to_string()),
            PodState::Terminated if under_pressure => {
                Decision::remove(Rule::C4, "its pod has terminated, and the node is under pressure")
            }
            PodState::Active | PodState::Terminated | PodState::Unknown(_) => return true,
        };
        for &index in &*unit {
            decisions[index] = decision.clone();
        }
        false
    });
}

/// C5, `enforceMaxContainersPerEvictUnit` in `kuberuntime_gc.go`: of each unit, the newest stay, here by their attempts.
fn c5(units: &mut BTreeMap<Unit<'_>, Vec<usize>>, rules: &Rules, decisions: &mut [Decision]) {
    let Some(most) = rules.containers.max_per_container else { return };
    for unit in units.values_mut() {
        let reason = match most {
            0 => "`max_per_container` is 0".to_owned(),
            _ => format!("`max_per_container` is {most}, and newer dead instances of this container stay"),
        };
        cut(unit, most, &Decision::remove(Rule::C5, reason), decisions);
    }
}

/// C6, `evictContainers` in `kuberuntime_gc.go`: above `max_total`, each unit keeps an equal share
/// and at least one; if that is not enough, the oldest of all go. Units that C5 has emptied count,
/// as they do there.
fn c6(
    units: &mut BTreeMap<Unit<'_>, Vec<usize>>,
    runtime: &RuntimeView,
    rules: &Rules,
    decisions: &mut [Decision],
) {
    let Some(most) = rules.containers.max_total else { return };
    let count = |units: &BTreeMap<Unit<'_>, Vec<usize>>| units.values().map(Vec::len).sum::<usize>();
    if count(units) <= most {
        return;
    }
    if runtime.containers_extent == Extent::Slice && !mutation::is(Mutation::TrustSlices) {
        for &index in units.values().flatten() {
            decisions[index] = Decision::keep(Rule::B1, "`max_total` waits for a whole list of containers");
        }
        return;
    }
    let remove = Decision::remove(Rule::C6, format!("there are more than {most} dead containers"));
    let share = (most / units.len()).max(1);
    for unit in units.values_mut() {
        cut(unit, share, &remove, decisions);
    }
    let mut rest: Vec<usize> = units.values().flatten().copied().collect();
    rest.sort_by_key(|&index| (newest_first(&runtime.containers[index]), index));
    cut(&mut rest, most, &remove, decisions);
}

/// Removes all but the first.
fn cut(newest_first: &mut Vec<usize>, most: usize, decision: &Decision, decisions: &mut [Decision]) {
    for index in newest_first.drain(most.min(newest_first.len())..) {
        decisions[index] = decision.clone();
    }
}

/// Safety 3: beside a kubelet, the newest dead instance of each container of a pod that is not gone
/// stays. Without it the kubelet would run that container again (`ShouldContainerBeRestarted` in
/// `container/helpers.go`). The kubelet goes by labels, so a container without them is no instance.
fn keep_newest_dead(
    runtime: &RuntimeView,
    uids: &[Result<&str, &'static str>],
    pods: &Pods<'_>,
    rules: &Rules,
    decisions: &mut [Decision],
) {
    if rules.beside_kubelet.is_none() || mutation::is(Mutation::NewestDeadMayGo) {
        return;
    }
    let mut newest: HashMap<Unit<'_>, usize> = HashMap::new();
    for (index, container) in runtime.containers.iter().enumerate() {
        let is_instance = container.state != ContainerState::Running && !container.pod_uid.is_empty();
        let (Ok(uid), true) = (uids[index], is_instance) else { continue };
        let newest = newest.entry((uid, &container.name)).or_insert(index);
        if newest_first(container) < newest_first(&runtime.containers[*newest]) {
            *newest = index;
        }
    }
    for ((uid, _), index) in newest {
        if decisions[index].removes && !matches!(pods.state_of_container(uid), PodState::Gone(_)) {
            let reason = "without its newest dead instance the kubelet would run it again";
            decisions[index].overrule(Rule::Safety3, reason);
        }
    }
}

/// Whether the runtime must stop a container before it removes it (C7, `removeOldestN` in
/// `kuberuntime_gc.go`): it may still be running.
pub fn c7_stops_first(state: ContainerState) -> bool {
    state == ContainerState::Unknown
}

#[cfg(test)]
mod tests;
