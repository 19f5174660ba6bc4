//! What to do after a 409, and what the answer to a patch proves.

use crate::graph::ObjectSnapshot;
use crate::mutation::{self, Mutation};
use crate::object::{Finalizers, ObjectFacts, OwnerReference, ResourceVersion, Uid};

/// After this many consecutive conflicts in which only unrelated fields had changed, the DELETE is
/// conditional on the uid alone, so that status updates cannot starve collection.
pub const CONFLICTS_BEFORE_UID_ALONE: u32 = 5;

/// What the graph knows about an object's dependents. The policy depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dependents {
    pub any: bool,
    /// Whether one of them is deleting dependents.
    pub deleting_dependents: bool,
}

impl Dependents {
    pub const fn of(item: &ObjectSnapshot) -> Self {
        Self { any: item.has_dependents, deleting_dependents: item.has_dependent_deleting_dependents }
    }
}

/// What a decision to delete rests on. The decision holds as long as this has not changed,
/// whatever else has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    uid: Uid,
    /// Sorted, because the order of references is insignificant. Duplicates count.
    references: Vec<OwnerReference>,
    finalizers: Finalizers,
    dependents: Dependents,
}

impl Basis {
    pub fn of(item: &ObjectSnapshot) -> Self {
        Self {
            uid: item.identity.uid.clone(),
            references: sorted(item.references.iter().map(|view| view.reference.clone()).collect()),
            finalizers: item.finalizers,
            dependents: Dependents::of(item),
        }
    }

    /// The basis after our own patch that makes every reference non-blocking.
    pub fn without_blocking(mut self) -> Self {
        for reference in &mut self.references {
            reference.block_owner_deletion = false;
        }
        // The server drops references that are identical now.
        self.references = sorted(self.references);
        self.references.dedup();
        self
    }

    /// Whether the object still has these references and finalizers.
    pub fn matches(&self, facts: &ObjectFacts) -> bool {
        self.finalizers == facts.finalizers && self.references == sorted(facts.owners.clone())
    }
}

fn sorted(mut references: Vec<OwnerReference>) -> Vec<OwnerReference> {
    references.sort();
    references
}

/// What to do after the API server answered 409 to a DELETE and the object was read. Its word is that of
/// the metrics.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum AfterConflict {
    /// The object is proved absent: it is gone, or another object has its name.
    Absent,
    /// It is being deleted already: done.
    BeingDeleted,
    /// The same DELETE would fail again: retry with backoff.
    Backoff,
    /// The basis has changed: re-evaluate the object, policy included.
    Reevaluate,
    /// Only unrelated fields changed: DELETE with the version that was just read.
    #[strum(serialize = "delete_with_new_version")]
    DeleteWith(ResourceVersion),
    /// Only unrelated fields keep changing: DELETE with the uid alone.
    DeleteWithUidAlone,
}

/// Decides what to do after a 409 to a DELETE.
///
/// - `sent`: the version that the DELETE carried, or `None` for the uid alone.
/// - `read`: the object as read after the 409, or `None` if that read got a 404.
/// - `dependents`: what the graph knows about its dependents now.
/// - `consecutive`: the consecutive DELETEs of this decision that got a 409, this one included.
pub fn after_conflict(
    basis: &Basis,
    sent: Option<&ResourceVersion>,
    read: Option<&ObjectFacts>,
    dependents: Dependents,
    consecutive: u32,
) -> AfterConflict {
    let Some(facts) = read.filter(|facts| facts.uid == basis.uid) else {
        return AfterConflict::Absent;
    };
    if facts.being_deleted {
        return AfterConflict::BeingDeleted;
    }
    // If the DELETE carried the uid alone, or the current version, the conflict has a cause that
    // is not visible here. An object without a version cannot be compared.
    let (Some(sent), Some(current)) = (sent, &facts.resource_version) else {
        return AfterConflict::Backoff;
    };
    if sent == current {
        return AfterConflict::Backoff;
    }
    let is_same = basis.matches(facts) && basis.dependents == dependents;
    if !is_same && !mutation::is(Mutation::DeleteOverChanges) {
        return AfterConflict::Reevaluate;
    }
    if consecutive < CONFLICTS_BEFORE_UID_ALONE {
        AfterConflict::DeleteWith(current.clone())
    } else {
        AfterConflict::DeleteWithUidAlone
    }
}

/// The version that the DELETE after our own patch is conditional on: the one that the patch
/// returned, if the returned object is as expected. `None` means that something else changed, for
/// example that a solid owner was added: re-evaluate the object.
pub fn after_patch(expected: &Basis, returned: &ObjectFacts) -> Option<ResourceVersion> {
    let unchanged = returned.uid == expected.uid && !returned.being_deleted && expected.matches(returned);
    returned.resource_version.clone().filter(|_| unchanged)
}
