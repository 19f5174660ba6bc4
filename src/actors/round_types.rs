//! What a confirmation round of the orphan workers needs to know of the monitored types.

use std::sync::Arc;

use kube_gc_core::object::{Catalog, ResourceType};

/// The types that a round has to list. Discovery publishes them.
#[derive(Clone, Debug, Default)]
pub struct RoundTypes {
    /// Every monitored type.
    pub types: Vec<RoundType>,
    /// Resolves the references that are found.
    pub catalog: Arc<Catalog>,
}

/// One type that a round has to list.
#[derive(Clone, Debug)]
pub struct RoundType {
    /// The type.
    pub resource: Arc<ResourceType>,
    /// How it is followed.
    pub followed: Followed,
}

/// How far a round can rely on the monitor of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The type is not synced: its dependents are unknown.
    Not,
    /// The type is synced. Its versions are those of an aggregated API server and do not show how
    /// far the monitor is.
    Somehow,
    /// The type is synced, and its versions show how far the monitor is.
    ByVersion,
}
