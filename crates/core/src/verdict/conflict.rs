//! What a 409 means, and what a patch proves.

use std::fmt;

use crate::graph::ObjectSnapshot;
use crate::mutation::{self, Mutation};
use crate::object::{Finalizers, ObjectFacts, OwnerReference, ResourceVersion, Uid};

/// After so many conflicts in a row in which only unrelated fields had changed,
/// the DELETE carries the uid alone: status churn must not starve collection.
pub const CONFLICTS_BEFORE_UID_ALONE: u32 = 5;

/// What the graph knows of an object's dependents; part of what a policy is
/// chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dependents {
    /// Whether there are any.
    pub any: bool,
    /// Whether one of them is deleting dependents.
    pub deleting_dependents: bool,
}

impl Dependents {
    /// As the snapshot tells.
    #[must_use]
    pub const fn of(item: &ObjectSnapshot) -> Self {
        Self { any: item.has_dependents, deleting_dependents: item.has_dependent_deleting_dependents }
    }
}

/// What a decision to delete rests on. As long as the object still looks like
/// this, the decision holds, whatever else changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    uid: Uid,
    /// Sorted: the order of references means nothing, their number does.
    references: Vec<OwnerReference>,
    finalizers: Finalizers,
    dependents: Dependents,
}

impl Basis {
    /// What a decision about this snapshot rests on.
    #[must_use]
    pub fn of(item: &ObjectSnapshot) -> Self {
        Self {
            uid: item.identity.uid.clone(),
            references: sorted(item.references.iter().map(|view| view.reference.clone()).collect()),
            finalizers: item.finalizers,
            dependents: Dependents::of(item),
        }
    }

    /// The same after our own patch that makes every reference non-blocking.
    #[must_use]
    pub fn without_blocking(mut self) -> Self {
        for reference in &mut self.references {
            reference.block_owner_deletion = false;
        }
        // References that differed in nothing else are one now: the server drops
        // identical duplicates.
        self.references = sorted(self.references);
        self.references.dedup();
        self
    }

    /// Whether the object still has the references and finalizers decided on.
    #[must_use]
    pub fn matches(&self, facts: &ObjectFacts) -> bool {
        self.finalizers == facts.finalizers && self.references == sorted(facts.owners.clone())
    }
}

fn sorted(mut references: Vec<OwnerReference>) -> Vec<OwnerReference> {
    references.sort_unstable();
    references
}

/// How it goes on after the API server answered 409 to a DELETE and the object
/// was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterConflict {
    /// The object is gone, or another one has its name: proved absent.
    Absent,
    /// Somebody deletes it already: done.
    BeingDeleted,
    /// The same again would fail again: retry with backoff.
    Backoff,
    /// What the decision rests on has changed: decide again, policy included.
    Reevaluate,
    /// Only unrelated fields changed: DELETE with this version, the one just read.
    DeleteWith(ResourceVersion),
    /// Only unrelated fields changed, time and again: DELETE with the uid alone.
    DeleteWithUidAlone,
}

/// Says how it goes on after a 409 to a DELETE.
///
/// - `sent`: the version that the DELETE carried; `None`: the uid alone.
/// - `read`: the object as read after the 409; `None`: its own 404.
/// - `dependents`: what the graph knows of its dependents by now.
/// - `consecutive`: how many DELETEs of this decision were answered 409 in a
///   row, this one included.
#[must_use]
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
    // A conflict with the uid alone, or with the very version that is there, is
    // not about what we know; an object that has no version cannot be compared.
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

/// The version that a DELETE may be bound to after our own patch: the one that
/// the patch returned, if the object it returned is exactly what was expected.
/// `None`: something else changed with it, decide again. (Else a solid owner
/// added in between is deleted over.)
#[must_use]
pub fn after_patch(expected: &Basis, returned: &ObjectFacts) -> Option<ResourceVersion> {
    let unchanged = returned.uid == expected.uid && !returned.being_deleted && expected.matches(returned);
    returned.resource_version.clone().filter(|_| unchanged)
}

impl fmt::Display for AfterConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("it is absent"),
            Self::BeingDeleted => f.write_str("it is being deleted already"),
            Self::Backoff => f.write_str("the conflict has no visible cause: try again later"),
            Self::Reevaluate => {
                f.write_str("its owner references, finalizers or dependents changed: decide again")
            }
            Self::DeleteWith(version) => {
                write!(f, "only unrelated fields changed: delete at version {version}")
            }
            Self::DeleteWithUidAlone => {
                f.write_str("only unrelated fields keep changing: delete by uid alone")
            }
        }
    }
}
