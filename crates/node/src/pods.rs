//! C3 and C4: which pods are gone, and which are merely terminated.
//!
//! The kubelet knows its pods. A collector beside it only has the API server's word, which may be
//! late, wrong or about another node, so a pod is gone only if that is proved (safety 2).

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::logs::parse_directory;
use crate::mutation::{self, Mutation};
use crate::rule::escaped;
use crate::view::{Answer, Extent, Listed, Phase, Pod, Proof, SandboxState, is_uuid};
use crate::{Files, PodRef, PodView, RuntimeView};

/// The most pods that one pass asks the API server about.
pub const MOST_PROOFS: usize = 1000;

/// Whether a pod is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// The API server has it, and it has not terminated.
    Active,
    /// It has terminated, and the API server still has it (C4).
    Terminated,
    /// It is gone (C3).
    Gone(GoneReason),
    /// It is not known to be gone, so it counts as active.
    Unknown(UnknownReason),
}

/// Why a pod is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum GoneReason {
    /// It was evicted.
    #[strum(to_string = "its pod was evicted")]
    Evicted,
    /// It is being deleted, and none of its containers runs.
    #[strum(to_string = "its pod is being deleted and has ended")]
    Deleted,
    /// The API server has no such pod.
    #[strum(to_string = "its pod no longer exists")]
    NotFound,
    /// The API server has another pod of this name.
    #[strum(to_string = "its pod no longer exists; another one has its name")]
    Replaced,
}

/// Why it is not known whether a pod is gone.
#[derive(Clone, Debug, PartialEq, Eq, strum::Display)]
pub enum UnknownReason {
    /// There is no API server to ask.
    #[strum(to_string = "without an API server no pod is known to be gone")]
    NoApiServer,
    /// The API server has not listed all pods yet; with a reason for people.
    #[strum(to_string = "the pods of this node are not known yet: {0}")]
    NotListed(String),
    /// The list of pods may be behind.
    #[strum(to_string = "the list of pods may be behind")]
    Inconsistent,
    /// The API server knows fewer than half of the ready sandboxes.
    #[strum(
        to_string = "the API server knows fewer than half of the ready sandboxes: is the node's name right?"
    )]
    WrongNode,
    /// It is a static pod.
    #[strum(to_string = "it belongs to a static pod")]
    Static,
    /// It may be a static pod: no sandbox tells, and its uid is none of the API server's.
    #[strum(to_string = "it may belong to a static pod")]
    MaybeStatic,
    /// No API server could have given this identity.
    #[strum(to_string = "its pod's namespace, name or uid is not a valid one")]
    Implausible,
    /// Nothing tells its namespace and name.
    #[strum(to_string = "nothing tells the name of its pod")]
    Nameless,
    /// Items of this uid disagree on namespace and name.
    #[strum(to_string = "its pod's uid occurs with several names")]
    SeveralNames,
    /// It is not in the list, and no live GET has confirmed that it is gone.
    #[strum(to_string = "it is not proved that its pod is gone")]
    Unproved,
    /// Nothing shows that the API server's answers are about this node.
    #[strum(
        to_string = "no pod that the API server lists is known to the runtime; check the node's name and the cluster"
    )]
    Unconfirmed,
}

/// The pods of this node, from all that is known.
#[derive(Debug)]
pub struct Pods<'a> {
    view: &'a PodView,
    listed: HashMap<&'a str, &'a Pod>,
    mirrored: HashSet<&'a str>,
    proofs: HashMap<&'a str, &'a Proof>,
    static_uids: HashSet<&'a str>,
    with_sandbox: HashSet<&'a str>,
    /// By which namespace and name items claim to belong to a uid; nothing if they disagree.
    claims: BTreeMap<&'a str, Option<(&'a str, &'a str)>>,
    wrong_node: bool,
    /// Whether the runtime has sandboxes or containers, and the list the pods of none.
    unrelated: bool,
    /// Whether the list has the pod of a sandbox or container: then it is a list of this node, by its own cluster.
    confirmed: bool,
}

impl<'a> Pods<'a> {
    /// Brings together what the runtime, the API server and the log directories say.
    pub fn of(runtime: &'a RuntimeView, view: &'a PodView, files: &'a Files) -> Self {
        let (pods, proofs): (&[Pod], &[Proof]) = match view {
            PodView::Listed(Listed { pods, proofs, .. }) => (pods, proofs),
            PodView::None | PodView::Unavailable { .. } => (&[], &[]),
        };
        let statics = runtime.sandboxes.iter().filter(|sandbox| sandbox.is_static());
        let mut found = Self {
            view,
            listed: pods.iter().map(|pod| (pod.pod.uid.as_str(), pod)).collect(),
            mirrored: pods.iter().filter_map(|pod| pod.mirror_of.as_deref()).collect(),
            proofs: proofs.iter().map(|proof| (proof.pod.uid.as_str(), proof)).collect(),
            static_uids: statics.map(|sandbox| sandbox.uid.as_str()).collect(),
            with_sandbox: runtime.sandboxes.iter().map(|sandbox| sandbox.uid.as_str()).collect(),
            claims: BTreeMap::new(),
            wrong_node: false,
            unrelated: false,
            confirmed: false,
        };
        // Without a list, no pod is known to be gone, whatever it is called.
        if !matches!(view, PodView::Listed(_)) {
            return found;
        }
        for sandbox in &runtime.sandboxes {
            found.claim(&sandbox.uid, &sandbox.namespace, &sandbox.name);
        }
        for container in &runtime.containers {
            found.claim(&container.pod_uid, &container.pod_namespace, &container.pod_name);
        }
        for directory in &files.log_directories {
            if let Some((namespace, name, uid)) = parse_directory(&directory.name).named {
                found.claim(uid, namespace, name);
            }
        }
        found.wrong_node = found.is_wrong_node(runtime);
        let containers = runtime.containers.iter().map(|container| container.pod_uid.as_str());
        let mut records = found.with_sandbox.iter().copied().chain(containers);
        found.unrelated = records.clone().next().is_some() && !records.clone().any(|uid| found.is_known(uid));
        found.confirmed = records.any(|uid| is_uuid(uid) && found.listed.contains_key(uid))
            || mutation::is(Mutation::TrustUnconfirmed);
        found
    }

    fn claim(&mut self, uid: &'a str, namespace: &'a str, name: &'a str) {
        let claim = self.claims.entry(uid).or_insert(Some((namespace, name)));
        if *claim != Some((namespace, name)) {
            *claim = None;
        }
    }

    /// Whether the API server has the pod in its list, or a mirror of it.
    pub fn is_known(&self, uid: &str) -> bool {
        self.listed.contains_key(uid) || self.mirrored.contains(uid)
    }

    /// Whether the name of the node is probably wrong (safety 2): the API server knows fewer than
    /// half of the ready sandboxes.
    pub const fn is_on_wrong_node(&self) -> bool {
        self.wrong_node
    }

    /// Whether the list may be another node's, so that it does not say which images are used.
    pub(crate) const fn may_be_of_another_node(&self) -> bool {
        self.wrong_node || self.unrelated
    }

    fn is_wrong_node(&self, runtime: &RuntimeView) -> bool {
        let ready = runtime.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
        let known = ready.clone().filter(|sandbox| self.is_known(&sandbox.uid)).count();
        known < ready.count().div_ceil(2)
    }

    /// Whether the pod of this uid is gone.
    ///
    /// C3: `ShouldPodContentBeRemoved` in `pod_workers.go` is true for pods that were evicted, for
    /// deleted pods that have terminated, and for unknown pods once all are known. C4:
    /// `ShouldPodRuntimeBeRemoved` is true for all pods that have terminated.
    pub fn state(&self, uid: &str) -> PodState {
        let Listed { consistent, .. } = match self.view {
            PodView::None => return PodState::Unknown(UnknownReason::NoApiServer),
            PodView::Unavailable { why, .. } => {
                return PodState::Unknown(UnknownReason::NotListed(escaped(why)));
            }
            PodView::Listed(listed) => listed,
        };
        let is_static = self.static_uids.contains(uid) || self.mirrored.contains(uid);
        if is_static {
            return PodState::Unknown(UnknownReason::Static);
        }
        let state = match self.listed.get(uid) {
            Some(pod) => of_listed(pod),
            None if !consistent => PodState::Unknown(UnknownReason::Inconsistent),
            None => self.of_missing(uid),
        };
        match state {
            PodState::Gone(_) if self.wrong_node => PodState::Unknown(UnknownReason::WrongNode),
            state => state,
        }
    }

    /// Whether the pod of a container is gone. Only sandboxes say whether a pod is static; without one,
    /// the form of the uid has to.
    pub fn state_of_container(&self, uid: &str) -> PodState {
        match self.state(uid) {
            PodState::Gone(GoneReason::NotFound | GoneReason::Replaced)
                if !self.with_sandbox.contains(uid) && !is_uuid(uid) =>
            {
                PodState::Unknown(UnknownReason::MaybeStatic)
            }
            state => state,
        }
    }

    /// A pod that the list of this node's pods lacks.
    fn of_missing(&self, uid: &str) -> PodState {
        if mutation::is(Mutation::MissingIsGone) {
            return PodState::Gone(GoneReason::NotFound);
        }
        let pod = match self.identity(uid) {
            Ok(pod) => pod,
            Err(why) => return PodState::Unknown(why),
        };
        match self.proofs.get(uid).filter(|proof| proof.pod == pod).map(|proof| &proof.answer) {
            Some(Answer::OtherUid { mirror_of }) if mirror_of.as_deref() == Some(uid) => {
                PodState::Unknown(UnknownReason::Static)
            }
            Some(Answer::SameUid | Answer::Failed) | None => PodState::Unknown(UnknownReason::Unproved),
            Some(Answer::Forbidden) if !is_uuid(uid) => PodState::Unknown(UnknownReason::Unproved),
            // Right after a reboot, nothing else tells the wrong node or cluster.
            Some(_) if !self.confirmed => PodState::Unknown(UnknownReason::Unconfirmed),
            Some(Answer::OtherUid { .. }) => PodState::Gone(GoneReason::Replaced),
            // A pod never leaves its node, so a consistent list of the node is proof where nobody may ask for the
            // pod itself.
            Some(Answer::NotFound | Answer::Forbidden) => PodState::Gone(GoneReason::NotFound),
        }
    }

    /// The pod that everything with this uid claims to belong to.
    fn identity(&self, uid: &str) -> Result<PodRef, UnknownReason> {
        match self.claims.get(uid) {
            None => Err(UnknownReason::Nameless),
            Some(None) => Err(UnknownReason::SeveralNames),
            Some(Some((namespace, name))) => {
                let pod = PodRef::new(namespace, name, uid);
                if pod.is_plausible() { Ok(pod) } else { Err(UnknownReason::Implausible) }
            }
        }
    }
}

/// A pod in the list.
fn of_listed(pod: &Pod) -> PodState {
    if pod.mirror_of.is_some() {
        return PodState::Active;
    }
    let ended = pod.deleting && !pod.containers_running;
    match pod.phase {
        Phase::Failed if pod.evicted => PodState::Gone(GoneReason::Evicted),
        _ if ended => PodState::Gone(GoneReason::Deleted),
        Phase::Failed | Phase::Succeeded => PodState::Terminated,
        Phase::Pending | Phase::Running | Phase::Unknown => PodState::Active,
    }
}

/// Whether a pod never starts a container again: `detectImages` in `image_gc_manager.go` looks at containers alone,
/// so there the images of such a pod are free with its last container.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    of_listed(pod) != PodState::Active
}

/// The pods that a pass has to ask the API server about before it plans: those of dead containers,
/// sandboxes that are not ready and log directories that the list lacks. At most [`MOST_PROOFS`].
pub fn needing_proof(runtime: &RuntimeView, view: &PodView, files: &Files) -> Vec<PodRef> {
    let pods = Pods::of(runtime, view, files);
    if pods.wrong_node {
        return Vec::new();
    }
    let candidates = pods.claims.keys().filter(|uid| {
        !pods.is_known(uid) && !pods.static_uids.contains(*uid) && !pods.proofs.contains_key(*uid)
    });
    candidates.filter_map(|uid| pods.identity(uid).ok()).take(MOST_PROOFS).collect()
}

/// Whether everything about sandboxes and containers is known.
pub(crate) fn is_whole(runtime: &RuntimeView) -> bool {
    let whole = runtime.containers_extent == Extent::Whole && runtime.sandboxes_extent == Extent::Whole;
    whole || mutation::is(Mutation::TrustSlices)
}

#[cfg(test)]
mod tests;
