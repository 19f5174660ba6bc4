//! An object and its owners, for tests of this crate and of its users.

#![allow(missing_docs, clippy::unwrap_used, reason = "it is compiled for tests alone")]

use crate::graph::{
    ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView, ReferenceSnapshot,
};
use crate::object::{
    DeletionState, Finalizers, Identity, Namespace, ObjectFacts, OwnerReference, ResourceVersion, Uid,
    config_map,
};

pub fn uid(number: usize) -> Uid {
    Uid::parse(&format!("uid-{number}")).unwrap()
}

pub fn version(number: u64) -> Option<ResourceVersion> {
    Some(ResourceVersion::number(number))
}

pub fn identity(number: usize) -> Identity {
    config_map("team", &format!("name-{number}"), &uid(number).to_string())
}

/// A blocking reference to owner `number`.
pub fn reference(number: usize) -> OwnerReference {
    OwnerReference { block_owner_deletion: true, ..identity(number).reference() }
}

/// A live object, uid 0 at version 10, with references to owners 1 to `owners`.
pub fn item(owners: usize) -> ObjectSnapshot {
    let owner = |number| OwnerView::Local { identity: identity(number), state: OwnerState::Unknown };
    ObjectSnapshot {
        identity: identity(0),
        resource_version: version(10),
        generation: Generation(1),
        deletion: DeletionState::Live,
        finalizers: Finalizers::default(),
        references: (1..=owners)
            .map(|number| ReferenceSnapshot { reference: reference(number), owner: owner(number) })
            .collect(),
        has_dependents: false,
        has_dependent_deleting_dependents: false,
        foreground: ForegroundProgress::Unblocked,
    }
}

/// What a read of [`item`] with these owners shows at a version.
pub fn facts(owners: usize, at: u64) -> ObjectFacts {
    ObjectFacts {
        uid: uid(0),
        namespace: Namespace::parse("team"),
        name: "name-0".into(),
        resource_version: version(at),
        owners: (1..=owners).map(reference).collect(),
        being_deleted: false,
        finalizers: Finalizers::default(),
        held_by_others: false,
        grace: None,
        ends: None,
    }
}

pub const FOREGROUND: Finalizers = Finalizers { foreground: true, orphan: false };
pub const ORPHAN: Finalizers = Finalizers { foreground: false, orphan: true };
pub const BOTH: Finalizers = Finalizers { foreground: true, orphan: true };
