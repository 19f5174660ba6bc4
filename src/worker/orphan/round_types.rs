//! What a confirmation round lists, and what it finds.

use std::sync::Arc;

use super::horizon::Horizon;
use kube_gc_core::object::{Catalog, GroupResource, ResourceType};

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

/// The stage of the work on an owner when a round begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The dependents that the graph knows are being released.
    Releasing,
    /// They have been released. Every dependent that the round finds is late.
    Released,
}

/// What a round found for one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// Dependents that the graph had not shown; they are released.
    pub late: usize,
    /// The versions at which the round saw dependents that are late or still being released.
    pub shown: Horizon,
    /// Types that could not be listed and are not synced either.
    pub skipped: Vec<GroupResource>,
}
