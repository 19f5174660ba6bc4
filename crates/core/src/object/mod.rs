//! What a Kubernetes object is to a garbage collector: identities, owner references, resource
//! types, the relevant metadata of an object, and the catalog that resolves kinds.

mod facts;
mod hashing;
mod identity;
mod resource;
#[cfg(any(test, feature = "test-util"))]
mod testing;

use serde::{Deserialize, Serialize};

pub use facts::{
    DeletionState, Disturbance, Finalizers, ObjectFacts, OwnerReference, ResourceVersion, seconds,
};
pub use hashing::{Digest, HashSeed, Keyed};
pub(crate) use hashing::{KeyedMap, KeyedSet};
pub use identity::{Identity, Key, Namespace, Uid};
pub use resource::{
    Catalog, CatalogBuilder, GroupResource, KindKey, ResourceType, Scope, ServedKind, split_api_version,
};
#[cfg(any(test, feature = "test-util"))]
pub use testing::{config_map, random_uid, steps};

/// Debug output and JSON have the text for people.
macro_rules! shown_as_text {
    ($($debug:ty),*; $($json:ty),*) => {
        $(impl std::fmt::Debug for $debug {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })*
        $(impl Serialize for $json {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        })*
    };
}

shown_as_text!(GroupResource, Identity, Key, ResourceVersion, Uid; GroupResource, ResourceVersion, Uid);

/// The finalizer that the API server adds while it serves a foreground deletion.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// The finalizer that the API server adds while it serves an orphan deletion.
pub const ORPHAN_FINALIZER: &str = "orphan";

/// The `propagationPolicy` of a DELETE: what happens to the object's dependents.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
)]
pub enum PropagationPolicy {
    /// The object is removed first, and its dependents follow.
    Background,
    /// The object stays until its blocking dependents are gone.
    Foreground,
    /// The dependents lose the reference and live on.
    Orphan,
}

impl PropagationPolicy {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
