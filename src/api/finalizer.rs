//! Removing one of the garbage collector's finalizers.

use std::fmt;

use serde_json::value::RawValue;

use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::live::{CONFLICTS, ListPatch, MERGE_PATCH, PatchOutcome};
use crate::object::{FOREGROUND_FINALIZER, Identity, ORPHAN_FINALIZER, ObjectFacts};

/// A finalizer of the garbage collector's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finalizer {
    /// `foregroundDeletion`.
    Foreground,
    /// `orphan`.
    Orphan,
}

impl Finalizer {
    /// The text in `metadata.finalizers`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreground => FOREGROUND_FINALIZER,
            Self::Orphan => ORPHAN_FINALIZER,
        }
    }
}

impl fmt::Display for Finalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What came of removing a finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinalizerRemoval {
    /// It is off; the object as the patch returned it.
    Removed(ObjectFacts),
    /// It was not there.
    NotPresent,
    /// The object is gone, or another one has its name.
    Gone,
    /// The object is not being deleted: it is none of our business.
    NotBeingDeleted,
}

impl Api {
    /// Removes a finalizer from an object that is being deleted (semantics,
    /// section 6): live read, JSON merge patch with uid and resource version and
    /// the remaining list verbatim, tried again on conflict up to five times.
    /// Never finalizes an object that was re-created under the same name.
    ///
    /// # Errors
    ///
    /// Denied, refused, or in conflict five times in a row; nothing was removed.
    pub async fn remove_finalizer(
        &self,
        object: &Identity,
        finalizer: Finalizer,
    ) -> Result<FinalizerRemoval, ApiError> {
        let is_it = |raw: &RawValue| {
            serde_json::from_str::<String>(raw.get()).is_ok_and(|name| name == finalizer.name())
        };
        let mut attempt = 1;
        loop {
            let Some(live) = self.live(object).await? else { return Ok(FinalizerRemoval::Gone) };
            if !live.facts.being_deleted {
                return Ok(FinalizerRemoval::NotBeingDeleted);
            }
            let lists = live.lists(object)?;
            let remaining: Vec<&RawValue> =
                lists.finalizers().iter().copied().filter(|raw| !is_it(raw)).collect();
            if remaining.len() == lists.finalizers().len() {
                return Ok(FinalizerRemoval::NotPresent);
            }
            let patch = ListPatch {
                uid: &object.uid,
                resource_version: live.facts.resource_version.as_ref(),
                list: "finalizers",
                entries: &remaining,
            };
            match self.patch(object, MERGE_PATCH, &patch).await {
                Ok(PatchOutcome::Done(facts)) => return Ok(FinalizerRemoval::Removed(facts)),
                Ok(PatchOutcome::Gone) => return Ok(FinalizerRemoval::Gone),
                Err(error) if error.class == ErrorClass::Conflict && attempt < CONFLICTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }
}
