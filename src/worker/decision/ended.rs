//! The words for how a write ended.

use crate::api::{Deleted, FinalizerRemoval, Patched};

/// How a write ended, in a word for the log and the metrics.
pub trait Ended {
    /// The word.
    fn word(&self) -> &'static str;
}

impl Ended for Deleted {
    fn word(&self) -> &'static str {
        match self {
            Self::Removed => "deleted",
            Self::Pending(_) => "deletion_pending",
            Self::AlreadyGone(_) => "already_gone",
        }
    }
}

impl Ended for Patched {
    fn word(&self) -> &'static str {
        match self {
            Self::Changed(_) => "patched",
            Self::Unneeded(_) => "unneeded",
            Self::Gone(_) => "already_gone",
        }
    }
}

impl Ended for FinalizerRemoval {
    fn word(&self) -> &'static str {
        match self {
            Self::Removed(_) => "removed",
            Self::NotPresent(_) => "unneeded",
            Self::Gone(_) => "already_gone",
            Self::NotBeingDeleted(_) => "not_being_deleted",
        }
    }
}
