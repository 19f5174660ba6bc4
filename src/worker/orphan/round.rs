//! The stage at which a confirmation round begins, and what it finds.

use super::horizon::Horizon;
use super::unlistable::Unlisted;

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
    /// What could not be listed.
    pub unlisted: Vec<Unlisted>,
}
