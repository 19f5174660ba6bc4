//! What no plan may ever break, checked anew from the inputs.
//!
//! The checks share no code with the rules, except for the names of log files. They say what must
//! not happen and nothing about what should. A caller can check each plan before it acts on it;
//! [`check`] takes about as long as planning does.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use crate::logs::{c8_log_file, parse_directory};
use crate::plan::{Candidate, Inputs, Plan, Target, What};
use crate::rules::Effects;
use crate::view::{
    Answer, Container, ContainerState, Extent, Image, Listed, Phase, Pod, SandboxImage, SandboxState, is_uuid,
};
use crate::{PodView, Rule, Timestamp};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the invariant, from 1 to 5.
    pub invariant: u8,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "safety {}: {}", self.invariant, self.what)
    }
}

/// All invariants that a plan breaks: none, unless there is a bug.
pub fn check(inputs: &Inputs<'_>, plan: &Plan) -> Vec<Violation> {
    let checks: [fn(&Inputs<'_>, &Plan) -> Vec<String>; 5] = [
        nothing_in_use_goes,
        gone_pods_are_proved,
        kubelets_keep_what_they_need,
        passes_are_limited,
        files_stay_beneath_their_roots,
    ];
    let numbered = (1..).zip(checks);
    numbered
        .flat_map(|(invariant, check)| {
            check(inputs, plan).into_iter().map(move |what| Violation { invariant, what })
        })
        .collect()
}

/// Everything that a plan may remove: what it means to, and what is in line.
fn all(plan: &Plan) -> impl Iterator<Item = &Candidate> {
    plan.removals.iter().chain(&plan.in_line)
}

fn ids<'a>(candidates: impl Iterator<Item = &'a Candidate>, what: What) -> HashSet<&'a str> {
    candidates.filter(|candidate| candidate.what() == what).map(Candidate::id).collect()
}

/// Safety 1: nothing running, ready or in use goes. UNKNOWN containers are stopped first.
pub fn nothing_in_use_goes(inputs: &Inputs<'_>, plan: &Plan) -> Vec<String> {
    let Inputs { runtime, pods, ledger, rules, now, .. } = inputs;
    let mut wrong = Vec::new();
    if all(plan).next().is_none() {
        return wrong;
    }
    let gone_before = ids(plan.removals.iter(), What::Container);
    let stay = || runtime.containers.iter().filter(|container| !gone_before.contains(container.id.as_str()));
    let mut used: HashSet<&str> = HashSet::new();
    used.extend(stay().flat_map(|container| &container.image_refs).map(String::as_str));
    used.extend(runtime.image_volumes.iter().chain(&runtime.foreign_images).map(String::as_str));
    let may_start = |pod: &&Pod| {
        let has_ended = matches!(pod.phase, Phase::Failed | Phase::Succeeded);
        pod.mirror_of.is_some() || !(has_ended || (pod.deleting && !pod.containers_running))
    };
    used.extend(pods.pods().iter().filter(may_start).flat_map(|pod| &pod.images).map(String::as_str));
    let sandbox_image = match &runtime.sandbox_image {
        SandboxImage::Named(reference) => Some(reference.as_str()),
        SandboxImage::None | SandboxImage::Unknown => None,
    };
    let occupied: HashSet<&str> = stay().map(|container| container.sandbox_id.as_str()).collect();
    let mut containers: HashMap<&str, Vec<&Container>> = HashMap::new();
    for container in &runtime.containers {
        containers.entry(&container.id).or_default().push(container);
    }
    let whole = runtime.containers_extent == Extent::Whole && runtime.sandboxes_extent == Extent::Whole;
    for candidate in all(plan) {
        let id = candidate.id();
        let mut complain = |why: &str| wrong.push(format!("{:?} {id:?} goes, and {why}", candidate.what()));
        match &candidate.target {
            Target::Container { stop_first, .. } => match containers.get(id).map(Vec::as_slice) {
                Some([container]) => match container.state {
                    ContainerState::Running => complain("it is running"),
                    ContainerState::Unknown if !stop_first => complain("it is unknown and not stopped first"),
                    _ if container.created_at.nanos() <= 0 => complain("its age is not known"),
                    _ if container.created_at > *now => complain("it is not created yet"),
                    _ => {}
                },
                _ => complain("there is not exactly one"),
            },
            Target::Sandbox { .. } => {
                let mut found = runtime.sandboxes.iter().filter(|sandbox| sandbox.id == id);
                match (found.next(), found.next()) {
                    (Some(sandbox), None) if sandbox.state == SandboxState::Ready => complain("it is ready"),
                    (Some(_), None) if occupied.contains(id) => complain("it has containers"),
                    (Some(_), None) if !whole => complain("there may be containers in it"),
                    (Some(_), None) => {}
                    _ => complain("there is not exactly one"),
                }
            }
            Target::LogDirectory { uid, .. } => {
                let running = runtime
                    .containers
                    .iter()
                    .any(|other| other.pod_uid == *uid && other.state == ContainerState::Running);
                if running {
                    complain("a container of its pod is running");
                }
                if !whole {
                    complain("something of its pod may be running");
                }
            }
            Target::LogSymlink { .. } => {
                if !whole {
                    complain("its container may be running");
                }
            }
            Target::Image { runtime_handler, .. } => {
                let is_it = |image: &&Image| image.id == id && image.runtime_handler == *runtime_handler;
                for image in runtime.images.iter().filter(is_it) {
                    let names = || image.names().chain([image.id.as_str()]);
                    if names().any(|name| used.contains(name)) {
                        complain("something uses it");
                    }
                    if plan.wrong_node || matches!(pods, PodView::Unavailable { known: None, .. }) {
                        complain("a pod may name it");
                    }
                    if image.pinned {
                        complain("it is pinned");
                    }
                    if sandbox_image.is_some_and(|wanted| names().any(|name| name == wanted)) {
                        complain("it is the image of sandboxes");
                    }
                    let age = ledger.age(&image.key()).unwrap_or_default();
                    if age.detected < rules.images.min_age {
                        complain("it is too young");
                    }
                    let unused = age.used.unwrap_or(Duration::MAX).min(age.detected);
                    if rules.older_than.is_some_and(|least| unused < least) {
                        complain("it was used after what was asked for");
                    }
                    let has = |label| image.labels.as_ref().is_some_and(|has| has.contains(label));
                    if !rules.labels.iter().all(has) {
                        complain("it lacks a label that was asked for");
                    }
                    if names().any(|name| rules.images.keep.iter().any(|glob| glob.matches(name))) {
                        complain("`keep` names it");
                    }
                }
                if runtime.sandbox_image == SandboxImage::Unknown {
                    complain("it may be the image of sandboxes");
                }
                if !whole || runtime.images_extent == Extent::Slice {
                    complain("something that is not listed may use it");
                }
            }
        }
    }
    wrong
}

/// Safety 2: what goes because its pod is gone belongs to a pod that is proved to be gone.
pub fn gone_pods_are_proved(inputs: &Inputs<'_>, plan: &Plan) -> Vec<String> {
    let Inputs { runtime, .. } = inputs;
    let mut wrong = Vec::new();
    let mut proved: HashMap<&str, bool> = HashMap::new();
    for candidate in all(plan) {
        let uid = match &candidate.target {
            Target::Container { uid, .. } if matches!(candidate.rule, Rule::C3 | Rule::C4) => uid,
            Target::LogDirectory { uid, .. } => uid,
            // Without a newer one, only its pod's end lets a sandbox go.
            Target::Sandbox { id, uid, created_at } => {
                let newer = runtime
                    .sandboxes
                    .iter()
                    .any(|other| other.uid == *uid && other.id != *id && other.created_at >= *created_at);
                if newer {
                    continue;
                }
                uid
            }
            Target::Container { .. } | Target::LogSymlink { .. } | Target::Image { .. } => continue,
        };
        let may_be_terminated = !matches!(candidate.rule, Rule::C3 | Rule::L1);
        let is_gone = *proved.entry(uid).or_insert_with(|| is_gone(inputs, uid));
        let has_ended = is_gone || (may_be_terminated && is_terminated(inputs, uid));
        if !has_ended {
            wrong.push(format!(
                "{:?} {:?} goes, and pod {uid} is not proved gone",
                candidate.what(),
                candidate.id()
            ));
        }
    }
    wrong
}

/// Whether a pod is gone, by the letter of the invariant.
fn is_gone(inputs: &Inputs<'_>, uid: &str) -> bool {
    let PodView::Listed(Listed { pods, consistent, proofs }) = inputs.pods else { return false };
    let sandboxes = &inputs.runtime.sandboxes;
    let known =
        |uid: &str| pods.iter().any(|pod| pod.pod.uid == uid || pod.mirror_of.as_deref() == Some(uid));
    let ready: Vec<_> = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).collect();
    let known_ready = ready.iter().filter(|sandbox| known(&sandbox.uid)).count();
    let is_static = sandboxes
        .iter()
        .any(|sandbox| sandbox.uid == uid && sandbox.config_source.as_deref().unwrap_or("api") != "api");
    let is_mirrored = pods.iter().any(|pod| pod.mirror_of.as_deref() == Some(uid));
    if 2 * known_ready < ready.len() || is_static || is_mirrored {
        return false;
    }
    if let Some(pod) = pods.iter().find(|pod| pod.pod.uid == uid) {
        return (pod.evicted && pod.phase == Phase::Failed) || (pod.deleting && !pod.containers_running);
    }
    let owners = inputs.runtime.containers.iter().map(|container| &container.pod_uid);
    let is_here = |pod: &Pod| {
        let uid = &pod.pod.uid;
        let has_sandbox = sandboxes.iter().any(|sandbox| sandbox.uid == *uid);
        is_uuid(uid) && (has_sandbox || owners.clone().any(|owner| owner == uid))
    };
    *consistent
        && pods.iter().any(is_here)
        && proofs.iter().filter(|proof| proof.pod.uid == uid).any(|proof| match &proof.answer {
            Answer::NotFound => true,
            Answer::OtherUid { mirror_of } => mirror_of.as_deref() != Some(uid),
            Answer::Forbidden => is_uuid(uid),
            Answer::SameUid | Answer::Failed => false,
        })
}

fn is_terminated(inputs: &Inputs<'_>, uid: &str) -> bool {
    inputs.pods.pods().iter().any(|pod| {
        pod.pod.uid == uid
            && (matches!(pod.phase, Phase::Failed | Phase::Succeeded)
                || (pod.deleting && !pod.containers_running))
    })
}

/// Safety 3: a dry run does nothing, and beside a kubelet the newest dead instance and what was
/// just created stay.
pub fn kubelets_keep_what_they_need(inputs: &Inputs<'_>, plan: &Plan) -> Vec<String> {
    let Inputs { runtime, rules, now, .. } = inputs;
    let mut wrong = Vec::new();
    let may_act = !rules.dry_run && rules.beside_kubelet != Some(Effects::Nothing);
    if !may_act && plan.effects != Effects::Nothing {
        wrong.push("a dry run acts".to_owned());
    }
    let only_images = rules.beside_kubelet == Some(Effects::Images);
    if only_images && all(plan).any(|candidate| candidate.what() != What::Image) {
        wrong.push("beside a kubelet, more than images go".to_owned());
    }
    let gone = ids(all(plan), What::Container);
    for container in runtime.containers.iter().filter(|container| gone.contains(container.id.as_str())) {
        let age = i128::from(now.nanos()) - i128::from(container.created_at.nanos());
        let young = age < i128::try_from(rules.created_grace.as_nanos()).unwrap_or(i128::MAX);
        if container.state == ContainerState::Created && young {
            wrong.push(format!("container {:?} was just created", container.id));
        }
    }
    if rules.beside_kubelet.is_none() || gone.is_empty() {
        return wrong;
    }
    // When the newest dead instances were created, and whether all of them go. Of equally new ones, one
    // is enough.
    let mut newest: HashMap<(&str, &str), (Timestamp, bool)> = HashMap::new();
    for container in &runtime.containers {
        if container.state == ContainerState::Running || container.pod_uid.is_empty() {
            continue;
        }
        let goes = gone.contains(container.id.as_str());
        let (created_at, all_gone) =
            newest.entry((&container.pod_uid, &container.name)).or_insert((container.created_at, true));
        if container.created_at > *created_at {
            (*created_at, *all_gone) = (container.created_at, goes);
        } else if container.created_at == *created_at {
            *all_gone &= goes;
        }
    }
    for ((uid, name), (_, all_gone)) in newest {
        if all_gone && !is_gone(inputs, uid) {
            wrong.push(format!("the newest dead instance of {name:?} in pod {uid} goes"));
        }
    }
    wrong
}

/// Safety 4: a pass removes no more than its limits.
pub fn passes_are_limited(inputs: &Inputs<'_>, plan: &Plan) -> Vec<String> {
    let mut limits = inputs.rules.limits;
    if inputs.rules.all {
        limits.images = usize::MAX;
    }
    let kinds = [
        (What::Container, limits.containers),
        (What::Sandbox, limits.containers),
        (What::LogDirectory, limits.containers),
        (What::LogSymlink, limits.containers),
        (What::Image, limits.images),
    ];
    let counted = kinds.map(|(what, most)| {
        let count = plan.removals.iter().filter(|candidate| candidate.what() == what).count();
        (count > most).then(|| format!("{count} of {what:?} go, and {most} may"))
    });
    counted.into_iter().flatten().collect()
}

/// Safety 5: files go only beneath the two roots.
pub fn files_stay_beneath_their_roots(inputs: &Inputs<'_>, plan: &Plan) -> Vec<String> {
    let Inputs { runtime, files, rules, .. } = inputs;
    let is_name = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    let mut wrong = Vec::new();
    for candidate in all(plan) {
        match &candidate.target {
            Target::LogDirectory { name, .. } => {
                let real =
                    files.log_directories.iter().any(|entry| entry.name == *name && entry.is_directory);
                if !is_name(name) || !real {
                    wrong.push(format!("{name:?} is no log directory"));
                }
            }
            Target::LogSymlink { name } if !is_name(name) => wrong.push(format!("{name:?} is no name")),
            Target::Container { id, uid, symlink, .. } => {
                if symlink.as_deref().is_some_and(|name| !is_name(name)) {
                    wrong.push(format!("{symlink:?} is no name"));
                }
                let container = runtime.containers.iter().find(|container| container.id == *id);
                let path = container.and_then(|container| container.log_path.as_deref()).unwrap_or_default();
                let Some(file) = c8_log_file(path, uid, &rules.roots) else { continue };
                let parts = || file.directories.iter().chain([&file.name]);
                let joined = parts().fold(rules.roots.pods.clone(), |path, part| path + "/" + part);
                let of_pod = file.directories.first().is_some_and(|first| parse_directory(first).uid == uid);
                if !parts().all(|part| is_name(part)) || joined != path || !of_pod {
                    wrong.push(format!("{path:?} is not a log of pod {uid}"));
                }
            }
            Target::LogSymlink { .. } | Target::Sandbox { .. } | Target::Image { .. } => {}
        }
    }
    wrong
}
