//! Removing one of the garbage collector's finalizers.

use std::fmt;

use super::client::Api;
use super::error::ApiError;
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
        _object: &Identity,
        _finalizer: Finalizer,
    ) -> Result<FinalizerRemoval, ApiError> {
        unimplemented!()
    }
}
