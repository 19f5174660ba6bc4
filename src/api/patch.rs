//! Patches of owner references.

use super::client::Api;
use super::error::ApiError;
use crate::object::{Identity, ObjectFacts, OwnerReference, ResourceVersion, Uid};

/// Which owner references are to go.
#[derive(Clone, Copy, Debug)]
pub enum References<'a> {
    /// Every reference with one of these uids. Only for objects of which no two
    /// references share a uid: a strategic merge patch removes the wrong one.
    OfOwners(&'a [Uid]),
    /// Exactly these (compared by apiVersion, kind, name and uid); always a JSON
    /// merge patch.
    Exactly(&'a [OwnerReference]),
}

/// What came of a patch of owner references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patched {
    /// The object as the patch returned it.
    Changed(ObjectFacts),
    /// A live read showed that there is nothing to change.
    Unneeded(ObjectFacts),
    /// The object is gone, or another one has its name.
    Gone,
}

impl Api {
    /// Takes owner references off a dependent (semantics, section 6).
    ///
    /// A strategic merge patch with the uid, and the resource version when one is
    /// given; for types that know none (415, remembered per type), and for exact
    /// references, a JSON merge patch of what a live read shows, with that read's
    /// uid and resource version.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::api::ErrorClass::Conflict) when the object is not at the given resource
    /// version; anything else that a request can meet.
    pub async fn remove_references(
        &self,
        _dependent: &Identity,
        _references: References<'_>,
        _resource_version: Option<&ResourceVersion>,
    ) -> Result<Patched, ApiError> {
        unimplemented!()
    }

    /// Sets `blockOwnerDeletion` to false on those of these references (all of
    /// the object's own) that block, by the same rules.
    ///
    /// # Errors
    ///
    /// As [`remove_references`](Self::remove_references).
    pub async fn stop_blocking(
        &self,
        _dependent: &Identity,
        _references: &[OwnerReference],
        _resource_version: Option<&ResourceVersion>,
    ) -> Result<Patched, ApiError> {
        unimplemented!()
    }
}
