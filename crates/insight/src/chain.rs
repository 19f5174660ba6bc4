//! What blocks a foreground deletion, down to the objects that hold everything.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kube_gc_core::graph::NodeView;
use kube_gc_core::object::{DeletionState, Identity, Key};
use kube_gc_core::verdict::Decision;

use super::finalizers::FinalizerReport;
use super::judge::verdict;
use super::knowledge::{Asker, Live};
use super::name::ObjectName;

/// The most objects of a chain that are followed.
const FOLLOWED: usize = 200;
/// The most objects at its end that are looked at.
const LEAVES: usize = 50;

/// What blocks a foreground deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// The objects that wait for their dependents, those nearer to the object first.
    pub links: Vec<ChainLink>,
    /// The objects at the end, which wait for no dependent.
    pub leaves: Vec<Leaf>,
    /// Whether there are more objects than were followed.
    pub truncated: bool,
}

/// An object that waits for its dependents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainLink {
    pub object: ObjectName,
    /// The number of dependents that block it.
    pub waits_for: usize,
}

/// An object that blocks others and waits for no dependent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Leaf {
    pub object: ObjectName,
    /// The object that it blocks.
    pub blocks: ObjectName,
    pub hold: Hold,
    pub finalizers: Vec<FinalizerReport>,
    /// When it was deleted; `null` if it is not being deleted, or if that is not known.
    pub deleted: Option<String>,
}

/// Why an object at the end of a chain is still there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Hold {
    /// It is being deleted, and finalizers hold it.
    Finalizers,
    /// It is being deleted, and no finalizer holds it: its grace period has not ended.
    GracePeriod,
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
    /// It could not be looked at.
    Unknown,
}

/// Follows what blocks an object, level by level.
pub(super) fn chain(asker: &mut Asker<'_>, root: &Identity) -> Chain {
    let mut chain = Chain::default();
    let mut seen: HashSet<Key> = HashSet::from([root.key()]);
    let mut level = vec![root.clone()];
    let mut ends: Vec<(Identity, DeletionState, ObjectName)> = Vec::new();
    while !level.is_empty() {
        let mut below = Vec::new();
        for owner in level {
            let Some(view) = asker.node(&owner.key()) else { continue };
            let blocking = view.map_or(0, |view| view.blocking);
            if blocking == 0 {
                // It waited for dependents when its owner was looked at.
                continue;
            }
            chain.links.push(ChainLink { object: (&owner).into(), waits_for: blocking });
            let shown = view.into_iter().flat_map(|view| &view.dependents).filter(|shown| shown.blocking);
            let mut count = 0;
            for dependent in shown {
                count += 1;
                if !seen.insert(dependent.identity.key()) {
                    continue;
                }
                if seen.len() > FOLLOWED {
                    chain.truncated = true;
                    break;
                }
                let waits = dependent.deletion == DeletionState::DeletingDependents
                    && waits_for_dependents(asker, &dependent.identity);
                if waits {
                    below.push(dependent.identity.clone());
                } else {
                    ends.push((dependent.identity.clone(), dependent.deletion, (&owner).into()));
                }
            }
            chain.truncated |= count < blocking;
        }
        level = below;
    }
    chain.truncated |= ends.len() > LEAVES;
    ends.truncate(LEAVES);
    chain.leaves = ends
        .into_iter()
        .map(|(identity, deletion, blocks)| leaf(asker, &identity, deletion, blocks))
        .collect();
    chain
}

fn waits_for_dependents(asker: &mut Asker<'_>, identity: &Identity) -> bool {
    let blocking = |view: Option<&NodeView>| view.is_some_and(|view| view.blocking > 0);
    // If that is not known yet, the question is asked again.
    asker.node(&identity.key()).is_some_and(blocking)
}

/// What is known of an object that waits for no dependent.
pub(super) fn leaf(
    asker: &mut Asker<'_>,
    identity: &Identity,
    deletion: DeletionState,
    blocks: ObjectName,
) -> Leaf {
    let mut leaf =
        Leaf { object: identity.into(), blocks, hold: Hold::Unknown, finalizers: Vec::new(), deleted: None };
    if let Some(Live::Found(live)) = asker.live(identity) {
        leaf.finalizers = FinalizerReport::of(&live.details, asker.catalog());
        leaf.deleted.clone_from(&live.details.deleted);
    }
    leaf.hold = match deletion {
        DeletionState::Terminating if leaf.finalizers.is_empty() => Hold::GracePeriod,
        DeletionState::Terminating => Hold::Finalizers,
        DeletionState::Orphaning => Hold::Orphaning,
        // The collector removes its own finalizer, and others hold it after that.
        DeletionState::DeletingDependents if leaf.finalizers.len() > 1 => Hold::Finalizers,
        DeletionState::DeletingDependents => Hold::Unblocked,
        DeletionState::Live => match verdict(asker, &identity.key()) {
            Some(Some(Decision::Delete { .. })) => Hold::ToBeDeleted,
            Some(Some(Decision::RemoveReferences { .. })) => Hold::ToBeReleased,
            Some(Some(Decision::Park(_) | Decision::Report { .. })) => Hold::Undecided,
            Some(Some(Decision::Keep(_)) | None) | None => Hold::Unknown,
        },
    };
    leaf
}
