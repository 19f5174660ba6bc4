//! What a confirmation round lists, and what it finds.

use std::sync::Arc;

use super::horizon::Horizon;
use kube_gc_core::object::{Catalog, GroupResource, ResourceType};

/// What a round has to list: published by discovery.
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

/// What the monitor of a type is worth to a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// It is not synced: nobody knows what there is.
    Not,
    /// It is synced, and the versions of another API server than the cluster's own say
    /// nothing of how far.
    Somehow,
    /// It is synced, and version by version.
    ByVersion,
}

/// What the work on an owner is at when a round begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The dependents that the graph knows are being released.
    Releasing,
    /// They are released: whom the round finds is late.
    Released,
}

/// What a round found for one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// Dependents that the graph had not shown; they are released.
    pub late: usize,
    /// What it has seen of dependents that are still being released, or late.
    pub shown: Horizon,
    /// Types that could not be listed and are not synced either.
    pub skipped: Vec<GroupResource>,
}
