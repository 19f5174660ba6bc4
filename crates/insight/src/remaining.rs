//! The objects that are being deleted, and those that block one.

use std::collections::HashMap;

use kube_gc_core::graph::{ObjectSnapshot, OwnerState, OwnerView};
use kube_gc_core::object::{DeletionState, Identity, Key};

use super::knowledge::Asker;
use super::local::LocalGraph;

/// An object that is being deleted, or that blocks one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    pub identity: Identity,
    pub deletion: DeletionState,
    /// The owners in foreground deletion that wait for it.
    pub blocks: Vec<Key>,
    /// Whether it is reported itself, and not only what it holds.
    pub is_meant: bool,
}

impl Remaining {
    /// All such objects of a graph. Those that hold others come first.
    #[must_use]
    pub fn all(graph: &mut LocalGraph) -> Vec<Self> {
        let mut all = Vec::new();
        graph.each_object(|graph, object| {
            let blocks = blocked_owners(graph, object);
            if object.deletion.is_being_deleted() || !blocks.is_empty() {
                let (identity, deletion) = (object.identity.clone(), object.deletion);
                all.push(Self { identity, deletion, blocks, is_meant: true });
            }
        });
        in_order(all)
    }

    /// The same, where the objects that are being deleted are known already: their dependents say
    /// what blocks them. Incomplete if more facts are needed.
    #[must_use]
    pub fn around(asker: &mut Asker<'_>, deleted: &[(Identity, DeletionState)]) -> Vec<Self> {
        let mut places: HashMap<Key, usize> = HashMap::new();
        let mut all: Vec<Self> = Vec::with_capacity(deleted.len());
        for (identity, deletion) in deleted {
            places.insert(identity.key(), all.len());
            let (identity, deletion) = (identity.clone(), *deletion);
            all.push(Self { identity, deletion, blocks: Vec::new(), is_meant: true });
        }
        for (owner, deletion) in deleted {
            if *deletion != DeletionState::DeletingDependents {
                continue;
            }
            let key = owner.key();
            let view = asker.node(&key).flatten();
            for dependent in view.into_iter().flat_map(|view| &view.dependents) {
                if !dependent.blocking || dependent.identity == *owner {
                    continue;
                }
                let place = *places.entry(dependent.identity.key()).or_insert_with(|| {
                    let (identity, deletion) = (dependent.identity.clone(), dependent.deletion);
                    all.push(Self { identity, deletion, blocks: Vec::new(), is_meant: true });
                    all.len() - 1
                });
                all[place].blocks.push(key.clone());
            }
        }
        in_order(all)
    }
}

fn in_order(mut all: Vec<Remaining>) -> Vec<Remaining> {
    fn place(remaining: &Remaining) -> impl Ord + '_ {
        let Identity { namespace, resource, name, .. } = &remaining.identity;
        let waits = remaining.deletion == DeletionState::DeletingDependents;
        (waits, namespace, &resource.group_resource, name)
    }
    all.sort_by(|a, b| place(a).cmp(&place(b)));
    all
}

fn blocked_owners(graph: &LocalGraph, object: &ObjectSnapshot) -> Vec<Key> {
    let waits = |state: &OwnerState| {
        matches!(state, OwnerState::Observed { deletion: DeletionState::DeletingDependents, .. })
    };
    let blocking = object.references.iter().filter(|seen| seen.reference.block_owner_deletion);
    let owners = blocking.filter_map(|seen| match &seen.owner {
        OwnerView::Local { identity, state } => waits(state).then_some(identity),
        OwnerView::Remote(identity) => waits(&graph.owner_state(identity)).then_some(identity),
        OwnerView::Unresolved | OwnerView::InvalidScope => None,
    });
    owners.filter(|owner| **owner != object.identity).map(Identity::key).collect()
}
