//! What blocks a foreground deletion, down to what holds everything.

use std::collections::{HashSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::finalizers::FinalizerReport;
use crate::hold::{Held, Hold, holds};
use crate::knowledge::{Asker, Live};
use crate::name::ObjectName;
use kube_gc_core::object::{DeletionState, Identity, Key};
use kube_gc_core::text::listed;

/// The most objects of a chain that are followed.
const FOLLOWED: usize = 200;
/// The most objects at its end that are looked at.
const LEAVES: usize = 50;

/// What blocks a foreground deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// The objects that wait for their dependents, those nearer to the object first.
    pub links: Vec<ChainLink>,
    /// The objects at the end, which wait for no dependent.
    pub leaves: Vec<Leaf>,
    /// Whether there are more objects than were followed.
    pub truncated: bool,
}

impl Chain {
    /// What its end is for the object at its beginning, without what is left in that; nothing, if there is none.
    pub(super) fn held(&self, left: &[(Identity, DeletionState)]) -> Option<Held> {
        let is_left = |leaf: &&Leaf| left.iter().any(|(object, _)| ObjectName::from(object) == leaf.object);
        let leaves: Vec<&Leaf> = self.leaves.iter().filter(|leaf| !is_left(leaf)).collect();
        let named = leaves.iter().map(|leaf| format!("{} ({})", leaf.object, leaf.waits_for));
        let mut held = Held::new(leaves.first()?.hold);
        held.detail = Some(listed(", ", leaves.len(), named));
        Some(held)
    }
}

/// An object that waits for its dependents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChainLink {
    pub object: ObjectName,
    /// The number of dependents that block it.
    pub waits_for: usize,
}

/// An object that blocks others and waits for no dependent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Leaf {
    pub object: ObjectName,
    /// The object that it blocks.
    pub blocks: ObjectName,
    pub hold: Hold,
    /// The same in words.
    pub waits_for: String,
    pub finalizers: Vec<FinalizerReport>,
    /// When it was deleted; `null` if it is not being deleted, or if that is not known.
    pub deleted: Option<String>,
}

impl Leaf {
    /// Whether the collector has to do something with it.
    pub const fn is_work(&self) -> bool {
        matches!(self.hold, Hold::ToBeDeleted | Hold::ToBeReleased | Hold::Unblocked)
    }
}

/// Follows what blocks an object, level by level.
pub(super) fn chain(asker: &mut Asker<'_>, root: &Identity) -> Chain {
    let mut chain = Chain::default();
    let mut seen: HashSet<Key> = HashSet::from([root.key()]);
    let mut open = VecDeque::from([root.clone()]);
    let mut ends: Vec<(Identity, DeletionState, ObjectName)> = Vec::new();
    while let Some(owner) = open.pop_front() {
        // One that has no node waited for dependents when its owner was looked at.
        let Some(view) = asker.node(&owner.key()).flatten().filter(|view| view.blocking > 0) else {
            continue;
        };
        let name = ObjectName::from(&owner);
        chain.links.push(ChainLink { object: name.clone(), waits_for: view.blocking });
        let shown: Vec<_> = view.dependents.iter().filter(|shown| shown.blocking).collect();
        chain.truncated |= shown.len() < view.blocking;
        for dependent in shown {
            let key = dependent.identity.key();
            if !seen.insert(key.clone()) {
                continue;
            }
            if seen.len() > FOLLOWED {
                chain.truncated = true;
                break;
            }
            // If that is not known yet, the question is asked again.
            let waits = dependent.deletion == DeletionState::DeletingDependents
                && asker.node(&key).flatten().is_some_and(|view| view.blocking > 0);
            if waits {
                open.push_back(dependent.identity.clone());
            } else {
                ends.push((dependent.identity.clone(), dependent.deletion, name.clone()));
            }
        }
    }
    chain.truncated |= ends.len() > LEAVES;
    let leaves = ends.into_iter().take(LEAVES);
    chain.leaves = leaves.map(|(object, deletion, blocks)| leaf(asker, &object, deletion, blocks)).collect();
    chain
}

/// What is known of an object that waits for no dependent.
fn leaf(asker: &mut Asker<'_>, identity: &Identity, deletion: DeletionState, blocks: ObjectName) -> Leaf {
    let object = ObjectName::from(identity);
    let holds = holds(asker, identity, deletion, false);
    let words: Vec<String> = holds.iter().map(Held::in_short).collect();
    let hold = holds.first().map_or(Hold::Unknown, |held| held.hold);
    let mut leaf =
        Leaf { object, blocks, hold, waits_for: words.join(", "), finalizers: Vec::new(), deleted: None };
    if let Some(Live::Found(live)) = asker.live(identity) {
        leaf.finalizers = FinalizerReport::of(identity, &live.details, asker.catalog());
        leaf.deleted.clone_from(&live.details.deleted);
    }
    leaf
}
