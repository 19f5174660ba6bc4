//! The class of an owner reference with the evidence for it, and the verdict on an object.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::knowledge::{AbsenceEvidence, Asker, Live};
use crate::name::ObjectName;
use kube_gc_core::graph::{
    DependentSummary, ForegroundProgress, Generation, NodePresence, NodeView, ObjectSnapshot, OwnerView,
    ReferenceSnapshot,
};
use kube_gc_core::object::{
    Catalog, DeletionState, Identity, Key, Namespace, ObjectFacts, OwnerReference, PropagationPolicy,
    ResourceType, Scope, split_api_version,
};
use kube_gc_core::verdict::{
    Decision, IdleReason, KeepReason, Precheck, ReferenceClass, decide, from_live, from_state, named,
    precheck,
};

/// The object as a worker would see it; without a monitor for its type, from a live read.
pub(super) fn snapshot(asker: &mut Asker<'_>, identity: &Identity) -> Option<ObjectSnapshot> {
    let key = identity.key();
    let (object, view) = (asker.object(&key), asker.node(&key));
    if let Some(object) = object?.filter(|object| object.identity == *identity) {
        return Some(object.clone());
    }
    let view = view?;
    if view.is_some_and(|view| view.presence == NodePresence::Absent && view.identity == *identity) {
        return None;
    }
    match asker.live(identity)? {
        Live::Found(live) => Some(from_facts(asker.catalog(), identity, &live.facts, view)),
        Live::Absent(_) | Live::Failed(_) | Live::NotAsked => None,
    }
}

/// An object that no monitor shows, with what the graph knows of its dependents.
fn from_facts(
    catalog: &Arc<Catalog>,
    identity: &Identity,
    facts: &ObjectFacts,
    view: Option<&NodeView>,
) -> ObjectSnapshot {
    let references = facts.owners.iter().map(|owner| resolve(catalog, facts.namespace.as_ref(), owner));
    let deletes = |dependent: &DependentSummary| dependent.deletion == DeletionState::DeletingDependents;
    ObjectSnapshot {
        identity: identity.clone(),
        resource_version: facts.resource_version.clone(),
        generation: Generation(0),
        deletion: facts.deletion_state(),
        finalizers: facts.finalizers,
        references: references.collect(),
        has_dependents: view.is_some_and(|view| !view.by_type.is_empty()),
        has_dependent_deleting_dependents: view.is_some_and(|view| view.dependents.iter().any(deletes)),
        foreground: match view.map_or(0, |view| view.blocking) {
            0 if catalog.has_unread() => ForegroundProgress::PerhapsBlocked,
            0 => ForegroundProgress::Unblocked,
            blocking => ForegroundProgress::Blocked(blocking),
        },
    }
}

/// What the collector decides about an object whose owners decide.
pub(super) fn verdict(asker: &mut Asker<'_>, key: &Key) -> Option<Decision> {
    let object = asker.object(key)??;
    if precheck(object) != Precheck::Classify {
        return None;
    }
    let classes: Vec<_> =
        judged(asker, &object.references)?.iter().map(|reference| reference.class).collect();
    Some(decide(object, &classes))
}

/// The most objects that are looked at, to find out whether one is garbage.
const MOST_ABOVE: usize = 256;

/// Whether the collector deletes an object sooner or later: no owner exists that is not garbage itself.
pub(super) fn is_garbage(asker: &mut Asker<'_>, identity: &Identity) -> bool {
    let (mut above, mut open) = (HashMap::new(), vec![identity.key()]);
    while let Some(key) = open.pop() {
        if above.contains_key(&key) || above.len() == MOST_ABOVE {
            continue;
        }
        let object = asker.object(&key).flatten().filter(|object| precheck(object) == Precheck::Classify);
        let owners = object.and_then(|object| judged(asker, &object.references)).unwrap_or_default();
        open.extend(owners.iter().filter_map(|owner| Some(owner.identity.as_ref()?.key())));
        above.insert(key, owners);
    }
    let mut garbage = HashSet::new();
    loop {
        let class = |owner: &JudgedReference| match &owner.identity {
            Some(identity) if garbage.contains(&identity.key()) => ReferenceClass::Absent,
            _ => owner.class,
        };
        let goes = above.iter().filter(|(key, owners)| {
            let classes: Vec<ReferenceClass> = owners.iter().map(class).collect();
            !garbage.contains(*key) && Decision::unless_garbage(&classes).is_none()
        });
        let goes: Vec<Key> = goes.map(|(key, _)| key.clone()).collect();
        if goes.is_empty() {
            return garbage.contains(&identity.key());
        }
        garbage.extend(goes);
    }
}

/// Classifies all references of an object. `None` if the question needs more facts.
pub(super) fn judged(
    asker: &mut Asker<'_>,
    references: &[ReferenceSnapshot],
) -> Option<Vec<JudgedReference>> {
    // All are asked about at once, so no needed one may end the loop.
    let all: Vec<_> = references.iter().map(|seen| classify(asker, seen)).collect();
    all.into_iter().collect()
}

/// What the class of a reference rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Evidence {
    /// A list or a watch shows the owner.
    Watched,
    /// The graph remembers a proof of the owner's absence.
    Remembered,
    /// A live read shows the owner.
    Read,
    /// A live read got the owner's own 404.
    NotFound,
    /// A live read shows that another object has the owner's name.
    #[serde(rename_all = "camelCase")]
    OtherUid { uid: String },
    /// The server does not serve the kind in this `apiVersion`.
    #[serde(rename_all = "camelCase")]
    NotServed {
        /// An `apiVersion` in which it serves the kind.
        served_as: Option<String>,
    },
    /// Discovery could not read this part of the API.
    Undiscovered,
    /// The owner's kind is namespaced, and the dependent is cluster-scoped.
    Namespaced,
    /// The live read failed.
    #[serde(rename_all = "camelCase")]
    Failed { error: String },
    /// The owner was not looked up, because there are too many.
    NotAsked,
}

/// The most absent owners that are looked for in other namespaces, and owners of which it is looked whether they go.
const LOOKED_FOR: usize = 3;
/// How far up it is looked whether an owner goes.
const LEVELS: usize = 4;

/// Finds the first owners that are missing in the dependent's namespace in others, and who has the names of those
/// that were absent before.
pub(super) fn locate(asker: &mut Asker<'_>, judged: &mut [JudgedReference]) {
    let remembered = judged.iter_mut().filter(|reference| {
        reference.class == ReferenceClass::Absent && reference.evidence == Evidence::Remembered
    });
    for reference in remembered.take(LOOKED_FOR) {
        let live = reference.identity.as_ref().and_then(|owner| asker.live(owner));
        if let Some(Live::Absent(AbsenceEvidence::OtherUid(uid))) = live {
            reference.evidence = Evidence::OtherUid { uid: uid.shown().to_string() };
        }
    }
    let missing = judged.iter_mut().filter(|reference| reference.is_missing_in_a_namespace());
    for reference in missing.take(LOOKED_FOR) {
        reference.found = reference.identity.as_ref().and_then(|owner| asker.elsewhere(owner)).cloned();
    }
}

/// Whether an owner is being deleted, and its dependents are released first.
pub(super) fn is_orphaning(asker: &mut Asker<'_>, owner: &Identity) -> bool {
    let observed = asker.object(&owner.key()).map(|object| object.map(|object| object.deletion));
    let deletion = observed.and_then(|observed| observed.or_else(|| asker.live(owner)?.deletion()));
    deletion == Some(DeletionState::Orphaning)
}

/// What becomes of what keeps an object.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Stays,
    /// That was not looked at.
    Unseen,
    /// The object stays at most as long as this.
    Goes(String),
}

/// What becomes of the owners of an object, the last of these, each of which keeps the one before it.
pub(super) fn fate(asker: &mut Asker<'_>, judged: &[JudgedReference], below: &mut Vec<Key>) -> Fate {
    let solid = judged.iter().filter(|reference| reference.class == ReferenceClass::Solid);
    let each = solid.take(LOOKED_FOR + 1).enumerate().map(|(place, owner)| match place {
        LOOKED_FOR => Fate::Unseen,
        _ => fate_of(asker, owner, below),
    });
    // All are asked about at once.
    let all = each.reduce(|one, other| match (one, other) {
        (Fate::Goes(one), Fate::Goes(other)) => Fate::Goes(format!("{one}, or {other}")),
        (one, other) => one.min(other),
    });
    all.unwrap_or(Fate::Stays)
}

/// The same of one of them.
fn fate_of(asker: &mut Asker<'_>, reference: &JudgedReference, below: &mut Vec<Key>) -> Fate {
    let owner = reference.identity.as_ref().filter(|_| below.len() <= LEVELS);
    let Some(owner) = owner.and_then(|owner| snapshot(asker, owner)) else { return Fate::Unseen };
    let key = owner.identity.key();
    match precheck(&owner) {
        Precheck::Nothing(IdleReason::Terminating) => {
            Fate::Goes(format!("{} exists, which is being deleted", reference.owner))
        }
        // Objects in a circle keep each other.
        Precheck::Classify if !below.contains(&key) => {
            let Some(judged) = judged(asker, &owner.references) else { return Fate::Unseen };
            let classes: Vec<_> = judged.iter().map(|reference| reference.class).collect();
            match decide(&owner, &classes) {
                Decision::Delete { policy, .. } if policy != PropagationPolicy::Orphan => {
                    Fate::Goes(format!("{} exists, which is garbage", reference.owner))
                }
                Decision::Keep(KeepReason::Owned) | Decision::RemoveReferences { .. } => {
                    below.push(key);
                    let fate = fate(asker, &judged, below);
                    below.pop();
                    fate
                }
                Decision::Park(_) if judged.iter().any(|owner| owner.evidence.is_unseen()) => Fate::Unseen,
                _ => Fate::Stays,
            }
        }
        _ => Fate::Stays,
    }
}

impl Evidence {
    /// Whether the owner could not be looked at by us, whatever the collector can.
    pub(super) const fn is_unseen(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::NotAsked)
    }
}

/// An owner reference with its class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JudgedReference {
    pub owner: ObjectName,
    pub controller: bool,
    pub block_owner_deletion: bool,
    pub class: ReferenceClass,
    pub evidence: Evidence,
    /// The object in another namespace that has the uid, if one is known.
    pub found: Option<ObjectName>,
    /// The identity that the reference names, if its kind resolves.
    #[serde(skip)]
    pub identity: Option<Identity>,
}

impl JudgedReference {
    /// Whether the owner would be in a namespace, and is not there.
    pub(super) fn is_missing_in_a_namespace(&self) -> bool {
        self.class == ReferenceClass::Absent
            && matches!(self.evidence, Evidence::NotFound | Evidence::Remembered | Evidence::OtherUid { .. })
            && self.owner.namespace.is_some()
    }
}

/// Classifies a reference as a worker of the delete pool does: by the graph, and by a live read
/// where the graph does not know. `None` if the question needs more facts.
pub fn classify(asker: &mut Asker<'_>, seen: &ReferenceSnapshot) -> Option<JudgedReference> {
    let by_graph = match named(&seen.owner) {
        Err(class) => Ok(class),
        Ok((identity, Some(state))) => from_state(state).ok_or(identity),
        Ok((identity, None)) => from_state(asker.owner(identity)?).ok_or(identity),
    };
    let (class, evidence) = match by_graph {
        Ok(class) => (class, known(asker.catalog(), class, &seen.reference)),
        Err(identity) => match asker.live(identity)? {
            Live::Found(live) => (from_live(&live.facts), Evidence::Read),
            Live::Absent(AbsenceEvidence::NotFound) => (ReferenceClass::Absent, Evidence::NotFound),
            Live::Absent(AbsenceEvidence::OtherUid(uid)) => {
                (ReferenceClass::Absent, Evidence::OtherUid { uid: uid.shown().to_string() })
            }
            Live::Failed(error) => (ReferenceClass::Unresolved, Evidence::Failed { error: error.clone() }),
            Live::NotAsked => (ReferenceClass::Unresolved, Evidence::NotAsked),
        },
    };
    Some(JudgedReference {
        owner: ObjectName::of_owner(seen),
        controller: seen.reference.controller,
        block_owner_deletion: seen.reference.block_owner_deletion,
        class,
        evidence,
        found: None,
        identity: seen.owner.identity().cloned(),
    })
}

/// The evidence for a class that is known without a request.
fn known(catalog: &Catalog, class: ReferenceClass, reference: &OwnerReference) -> Evidence {
    match class {
        ReferenceClass::Solid | ReferenceClass::Waiting => Evidence::Watched,
        ReferenceClass::Absent | ReferenceClass::Orphaned => Evidence::Remembered,
        ReferenceClass::InvalidScope => Evidence::Namespaced,
        ReferenceClass::Unresolved if catalog.is_unread(&reference.api_version) => Evidence::Undiscovered,
        ReferenceClass::Unresolved => Evidence::NotServed {
            served_as: same_kind(catalog, reference).map(|served| served.api_version()),
        },
    }
}

/// The type of the same kind that a reference may mean which does not resolve: in its group, if that has one.
pub(super) fn same_kind<'a>(catalog: &'a Catalog, reference: &OwnerReference) -> Option<&'a ResourceType> {
    let (group, _) = split_api_version(&reference.api_version);
    let same = catalog.types().filter(|served| served.kind.eq_ignore_ascii_case(&reference.kind));
    same.min_by_key(|served| *served.group_resource.group != *group).map(|served| &**served)
}

/// What a reference of an object that no partition shows refers to.
pub(super) fn resolve(
    catalog: &Catalog,
    namespace: Option<&Namespace>,
    reference: &OwnerReference,
) -> ReferenceSnapshot {
    let owner = match catalog.resolve(&reference.api_version, &reference.kind) {
        None => OwnerView::Unresolved,
        Some(resource) if resource.scope == Scope::Namespaced && namespace.is_none() => {
            OwnerView::InvalidScope
        }
        Some(resource) => OwnerView::Remote(Identity {
            resource: Arc::clone(resource),
            namespace: namespace.filter(|_| resource.scope == Scope::Namespaced).cloned(),
            name: (&*reference.name).into(),
            uid: reference.uid.clone(),
        }),
    };
    ReferenceSnapshot { reference: reference.clone(), owner }
}
