//! What a Kubernetes object is to a garbage collector: identities, owner references, resource
//! types, the relevant metadata of an object, and the catalog that resolves kinds.

mod catalog;
mod digest;
mod disturbance;
mod facts;
mod hashing;
mod identity;
mod policy;
mod reference;
mod resource;
#[cfg(any(test, feature = "test-util"))]
mod testing;
mod uid;
mod version;

pub use catalog::{Catalog, CatalogBuilder, KindKey, ServedKind};
pub use digest::Digest;
pub use disturbance::Disturbance;
pub use facts::{DeletionState, Finalizers, ObjectFacts};
pub use hashing::{HashSeed, Keyed, KeyedHasher, UidHasher};
pub use identity::{Identity, Key, Namespace};
pub use policy::PropagationPolicy;
pub use reference::OwnerReference;
pub use resource::{GroupResource, ResourceType, Scope, split_api_version};
#[cfg(any(test, feature = "test-util"))]
pub use testing::{config_map, crafted, steps};
pub use uid::Uid;
pub use version::ResourceVersion;

/// The finalizer that the API server adds while it serves a foreground deletion.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// The finalizer that the API server adds while it serves an orphan deletion.
pub const ORPHAN_FINALIZER: &str = "orphan";
