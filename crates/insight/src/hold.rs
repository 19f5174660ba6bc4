//! Why an object that is being deleted, or that blocks one, is still there.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::advice::{Advice, is_plain};
use crate::finalizers::FinalizerReport;
use crate::judge::verdict;
use crate::knowledge::{Asker, Details, Live, LiveObject, NodeState, Particulars};
use crate::name::{LeftOut, ObjectName, Source, Unseen};
use crate::plan::{Container, OF_DEFINITIONS, OF_NAMESPACES, in_spec, keeps_contents};
use crate::sentence::age;
use kube_gc_core::graph::SearchQuery;
use kube_gc_core::object::{DeletionState, FOREGROUND_FINALIZER, GroupResource, Identity};
use kube_gc_core::text::listed;
use kube_gc_core::verdict::Decision;

/// The finalizer of a claim that pods use.
const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
/// The finalizer of a volume that is bound.
const OF_VOLUMES: &str = "kubernetes.io/pv-protection";

/// Who empties namespaces that are being deleted, and finishes them.
pub const NAMESPACE_CONTROLLER: &str =
    "the namespace controller of kube-controller-manager or a collector with --finish-namespaces";

/// What an object waits for. It is also the cause of a group of stuck objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase", const_into_str)]
pub enum Hold {
    /// It is being deleted, and finalizers hold it.
    Finalizers,
    /// A namespace that has finalizers of somebody else in its spec.
    SpecFinalizers,
    /// A namespace, while a part of the API does not answer.
    SilentApi,
    /// A namespace in which nothing is left that is known.
    NamespaceController,
    /// A pod whose grace period has not ended.
    GracePeriod,
    /// A pod whose grace period has ended, and whose node has not confirmed that its containers have.
    Kubelet,
    /// It is being deleted, and its dependents are being released.
    Orphaning,
    /// Nothing blocks it any more: the collector removes its finalizer.
    Unblocked,
    /// The collector deletes it next.
    ToBeDeleted,
    /// The collector removes its reference to what it blocks, because another owner keeps it.
    ToBeReleased,
    /// The collector cannot decide about it, because an owner cannot be resolved.
    Undecided,
    /// It is being deleted, and nothing in it says what it waits for.
    Unexplained,
    /// It could not be looked at.
    Unknown,
    /// Objects that block each other.
    Circle,
    /// There are too many causes to tell them apart.
    Other,
}

/// One thing that holds an object.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub hold: Hold,
    /// Which finalizers, APIs or node: what objects that wait for the same have in common.
    pub about: String,
    /// More than that, about this object alone.
    pub detail: Option<String>,
    pub finalizers: Vec<FinalizerReport>,
    /// That of a pod.
    node: NodeState,
}

/// The parts of the API that have to answer before an object goes.
pub(super) fn silent_apis<'a>(asker: &Asker<'a>, identity: &Identity) -> &'a [Unseen] {
    match Container::of(identity) {
        Some(Container::Namespace(_)) => &asker.outside().silent_apis,
        _ => &[],
    }
}

/// What has to be gone before an object goes: all in a namespace, or all objects of a definition.
pub fn contents_of(identity: &Identity) -> Option<SearchQuery> {
    let (namespace, resource) = match Container::of(identity)? {
        Container::Namespace(namespace) => (Some(namespace), None),
        Container::Definition(resource) => (None, Some(resource)),
        Container::Node => return None,
    };
    Some(SearchQuery { namespace, resource, ..SearchQuery::default() })
}

/// Whether it is one of what goes first of a namespace.
pub(super) fn is_pod(identity: &Identity) -> bool {
    identity.resource.group_resource == GroupResource::new("", "pods")
}

/// What an object waits for, which blocks others or is being deleted, and waits for no dependent. It has contents if
/// others are left that have to be gone before.
pub(super) fn holds(
    asker: &mut Asker<'_>,
    identity: &Identity,
    deletion: DeletionState,
    has_contents: bool,
) -> Vec<Held> {
    let hold = match deletion {
        DeletionState::Terminating | DeletionState::DeletingDependents => {
            let live = asker.live(identity).and_then(Live::found);
            let holds = live.map(|live| terminating(asker, identity, live, deletion, has_contents));
            return holds.unwrap_or_else(|| vec![Held::new(Hold::Unknown)]);
        }
        DeletionState::Orphaning => Hold::Orphaning,
        DeletionState::Live => match verdict(asker, &identity.key()) {
            Some(Decision::Delete { .. }) => Hold::ToBeDeleted,
            Some(Decision::RemoveReferences { .. }) => Hold::ToBeReleased,
            Some(Decision::Park(_) | Decision::Report { .. }) => Hold::Undecided,
            Some(Decision::Keep(_)) | None => Hold::Unknown,
        },
    };
    vec![Held::new(hold)]
}

/// What an object waits for that is being deleted.
fn terminating(
    asker: &mut Asker<'_>,
    identity: &Identity,
    live: &LiveObject,
    deletion: DeletionState,
    has_contents: bool,
) -> Vec<Held> {
    let (details, outside) = (&live.details, asker.outside());
    let mut finalizers = FinalizerReport::of(identity, details, asker.catalog());
    // The collector removes its own finalizer, and others hold the object after that.
    let is_unblocked = deletion == DeletionState::DeletingDependents && finalizers.len() == 1;
    // What was not listed of a definition may be left.
    let is_listed = !matches!(outside.left_out, LeftOut::Chosen(_))
        && outside.types.iter().all(|unseen| *unseen.what != *identity.name);
    finalizers.retain(|finalizer| match &*finalizer.name {
        FOREGROUND_FINALIZER => false,
        OF_DEFINITIONS => details.condition().is_some() || !has_contents && is_listed,
        _ => true,
    });
    let mut all = Vec::new();
    if is_unblocked {
        all.push(Held::new(if outside.is_empty() { Hold::Unblocked } else { Hold::Unknown }));
    }
    if !finalizers.is_empty() {
        let detail = protects(asker, identity, details, &finalizers);
        all.push(Held { detail, ..Held::finalizers(Hold::Finalizers, finalizers) });
    }
    all.extend(grace(asker, details));
    if all.is_empty() && !has_contents && keeps_contents(identity, details) {
        let about = "another deletion, which removes it and leaves in the store what is in it".to_owned();
        all.push(Held { about, ..Held::new(Hold::Unexplained) });
    }
    if let Particulars::Container { finalizers, .. } = &details.particulars {
        let others = in_spec(&details.particulars, asker.catalog());
        if !others.is_empty() {
            all.push(Held::finalizers(Hold::SpecFinalizers, others));
        }
        let silent = silent_apis(asker, identity);
        if !silent.is_empty() {
            let about = listed(", ", silent.len(), silent.iter().map(|api| &api.what));
            all.push(Held { about, ..Held::new(Hold::SilentApi) });
        }
        if all.is_empty() && !has_contents && finalizers.iter().any(|name| **name == *OF_NAMESPACES) {
            let (condition, failure) = (details.condition(), details.failure());
            let (hold, about) = match failure {
                Some(failure) => {
                    (Hold::NamespaceController, format!("what the condition {} reports", failure.kind))
                }
                None if outside.is_empty() => (Hold::NamespaceController, NAMESPACE_CONTROLLER.to_owned()),
                None => (Hold::Unknown, format!("{NAMESPACE_CONTROLLER}, or for what was not looked at")),
            };
            let says = condition.map(|condition| match failure {
                Some(_) => format!(": {}", condition.message),
                None => format!(", and {}", condition.words()),
            });
            let detail = Some(about.clone() + &says.unwrap_or_default());
            all.push(Held { about, detail, ..Held::new(hold) });
        }
    }
    if all.is_empty() && !has_contents {
        let is_unseen = details.finalizers.iter().any(|name| name == OF_DEFINITIONS);
        all.push(Held::new(if is_unseen { Hold::Unknown } else { Hold::Unexplained }));
    }
    all
}

/// What protects an object from its deletion, if one of its finalizers is for that.
pub(super) fn protects(
    asker: &mut Asker<'_>,
    identity: &Identity,
    details: &Details,
    finalizers: &[FinalizerReport],
) -> Option<String> {
    let names = FinalizerReport::names(finalizers);
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer.name == name);
    if let Particulars::Volume { claim: Some((namespace, claim)), .. } = &details.particulars
        && has(OF_VOLUMES)
    {
        return Some(format!(
            "{names}: it is bound to PersistentVolumeClaim/{claim} in namespace {namespace}"
        ));
    }
    if let Some(condition) = details.condition().filter(|_| has(OF_DEFINITIONS)) {
        return Some(format!("{names}, and {}", condition.words()));
    }
    let is_claim = &*identity.resource.group_resource.resource == "persistentvolumeclaims";
    let pods = if is_claim && has(OF_CLAIMS) { asker.users(identity)? } else { return None };
    let used = listed(", ", pods.len(), pods);
    (!pods.is_empty()).then(|| format!("{names}: {used} {} it", if pods.len() == 1 { "uses" } else { "use" }))
}

/// The grace period of a pod, or of another object to which the API gives one.
pub(super) fn grace(asker: &mut Asker<'_>, details: &Details) -> Option<Held> {
    let overdue = details.overdue().filter(|_| details.grace > 0)?;
    let time = age(overdue.unsigned_abs());
    let period = format!("its grace period of {} s", details.grace);
    if overdue < 0 {
        let detail = Some(format!("{period} ends in {time}"));
        return Some(Held { detail, ..Held::new(Hold::GracePeriod) });
    }
    let mut detail = format!("{period} ended {time} ago");
    let Particulars::Pod { node: Some(node) } = &details.particulars else {
        return Some(Held { detail: Some(detail), ..Held::new(Hold::Kubelet) });
    };
    let state = asker.node_state(node);
    detail += &match state {
        NodeState::Absent => format!(", and node {node} does not exist"),
        _ => format!(", and the kubelet of node {node} has not confirmed its end"),
    };
    Some(Held { about: node.clone(), detail: Some(detail), node: state, ..Held::new(Hold::Kubelet) })
}

impl Held {
    pub(super) fn new(hold: Hold) -> Self {
        Self { hold, about: String::new(), detail: None, finalizers: Vec::new(), node: NodeState::Unknown }
    }

    fn finalizers(hold: Hold, finalizers: Vec<FinalizerReport>) -> Self {
        Self { about: FinalizerReport::names(&finalizers), finalizers, ..Self::new(hold) }
    }

    /// What one object waits for.
    pub fn of_one(&self) -> String {
        self.detail.clone().unwrap_or_else(|| self.words(false))
    }

    /// The same in few words.
    pub fn in_short(&self) -> String {
        if self.is_grace() { self.words(false) } else { self.of_one() }
    }

    /// The same after the name of the object.
    pub fn clause(&self) -> String {
        match self.hold {
            Hold::Unblocked => ", whose finalizer the collector has to remove".to_owned(),
            Hold::ToBeDeleted => ", which the collector has to delete".to_owned(),
            Hold::ToBeReleased => ", whose owner reference the collector has to remove".to_owned(),
            Hold::Orphaning => ", whose dependents the collector has to release".to_owned(),
            _ => format!(" ({})", self.in_short()),
        }
    }

    /// Whether it is the grace period of a pod.
    pub const fn is_grace(&self) -> bool {
        matches!(self.hold, Hold::GracePeriod | Hold::Kubelet)
    }

    /// What one object waits for, as the end of a sentence.
    pub fn predicate(&self) -> String {
        let what = self.of_one();
        if self.is_grace() { format!(": {what}") } else { format!(" waits for {what}") }
    }

    /// What one object waits for, or several.
    pub fn words(&self, several: bool) -> String {
        let (its, it, s) = if several { ("their", "them", "s") } else { ("its", "it", "") };
        let about = &self.about;
        let lost = if self.node == NodeState::Absent { ", which does not exist," } else { "" };
        match self.hold {
            Hold::Finalizers | Hold::NamespaceController => about.clone(),
            Hold::Unexplained if !about.is_empty() => about.clone(),
            Hold::SpecFinalizers => format!("{about} in {its} spec"),
            Hold::SilentApi if about.contains(", ") => format!("APIs that do not answer: {about}"),
            Hold::SilentApi => format!("an API that does not answer: {about}"),
            Hold::GracePeriod => format!("the end of {its} grace period{s}"),
            Hold::Kubelet if about.is_empty() => format!("somebody to confirm {its} end"),
            Hold::Kubelet => format!("the kubelet of node {about}{lost} to confirm {its} end"),
            Hold::Orphaning => format!("the collector to release {its} dependents"),
            Hold::Unblocked => format!("the collector to remove {its} finalizer{s}"),
            Hold::ToBeDeleted => format!("the collector to delete {it}"),
            Hold::ToBeReleased => format!("the collector to remove {its} owner reference{s}"),
            Hold::Undecided => "an owner that cannot be resolved".to_owned(),
            Hold::Unexplained => "something that the API does not show".to_owned(),
            Hold::Unknown => "something that could not be looked at".to_owned(),
            Hold::Circle => {
                "a circle of objects that block each other, or an object that is not known".to_owned()
            }
            Hold::Other => "other causes".to_owned(),
        }
    }

    /// What a person can do about this object, one of so many, by an answer of this source.
    pub fn advice(&self, of: &ObjectName, count: usize, source: Source) -> Vec<Advice> {
        let about = &self.about;
        let what = match self.hold {
            Hold::Finalizers | Hold::SpecFinalizers => {
                let all: Vec<_> = self.finalizers.iter().map(|finalizer| (finalizer, of, count)).collect();
                return FinalizerReport::advice_on_all(&all);
            }
            Hold::SilentApi => format!(
                "A namespace only goes after every API has answered. Repair {about}. The APIService of an aggregated \
                 API can be removed instead."
            ),
            Hold::NamespaceController if about != NAMESPACE_CONTROLLER => format!("Repair {about}."),
            Hold::NamespaceController => format!("If that does not change, look at {NAMESPACE_CONTROLLER}."),
            Hold::Kubelet if about.is_empty() => return Vec::new(),
            Hold::Kubelet => match self.node {
                NodeState::Absent => {
                    let what = format!(
                        "kube-controller-manager removes the pods of a node that does not exist. If it does not, this \
                         removes a pod that no finalizer holds from the API without a confirmation that its containers \
                         have ended (if the machine of {about} still runs, they may run on, beside a new pod of the \
                         same name)"
                    );
                    let ObjectName { namespace, name, uid, .. } = of;
                    let path = format!("namespaces/{}/pods/{name}", namespace.as_deref().unwrap_or_default());
                    // Not the new pod of the same name.
                    let options = format!(r#"{{"gracePeriodSeconds":0,"preconditions":{{"uid":"{uid}"}}}}"#);
                    let command = format!("echo '{options}' | kubectl delete --raw /api/v1/{path} -f -");
                    let is_safe = [&path, uid].into_iter().all(|word| is_plain(word));
                    return vec![if is_safe { Advice::from(what).with(command, count) } else { what.into() }];
                }
                NodeState::Unready => format!(
                    "Node {about} is not ready. kube-controller-manager removes the pods of a node that has been \
                     deleted; `plan node/{about}` says what else goes with it."
                ),
                NodeState::Ready => format!("Node {about} is ready: look at its kubelet."),
                NodeState::Unknown => {
                    format!("Whether node {about} is ready could not be read. Look at it and its kubelet.")
                }
            },
            Hold::Unblocked | Hold::ToBeDeleted | Hold::ToBeReleased | Hold::Orphaning | Hold::Circle => {
                return vec![source.advice()];
            }
            Hold::Undecided => format!("`explain` of {of} says which of its owners cannot be resolved."),
            Hold::GracePeriod | Hold::Unexplained | Hold::Unknown | Hold::Other => {
                return Vec::new();
            }
        };
        vec![what.into()]
    }
}
