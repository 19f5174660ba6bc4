//! What a DELETE binds, and why one is not sent.

use crate::api::AbsenceProof;
use crate::worker::decision::Ended;
use crate::worker::interrupted::Interrupted;
use kube_gc_core::object::ResourceVersion;

/// The object has changed since the decision.
pub(super) const CHANGED: &str = "its owner references, finalizers or dependents changed";

/// The precondition of a DELETE besides the uid.
#[derive(Clone, Debug)]
pub(super) enum Precondition {
    /// The resource version of the decision.
    Version(ResourceVersion),
    /// None: the object has no version, or its status changes faster than it can be read and the
    /// last read showed that the decision still holds.
    UidAlone,
}

impl Precondition {
    pub fn of(version: Option<ResourceVersion>) -> Self {
        version.map_or(Self::UidAlone, Self::Version)
    }

    pub const fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::Version(version) => Some(version),
            Self::UidAlone => None,
        }
    }
}

/// Why a deletion is no longer needed.
#[derive(Clone, Debug)]
pub enum Dropped {
    /// The object is gone.
    Gone(AbsenceProof),
    /// The object is being deleted by somebody else.
    BeingDeleted,
}

impl Ended for Dropped {
    fn word(&self) -> &'static str {
        match self {
            Self::Gone(_) => "already_gone",
            Self::BeingDeleted => "already_being_deleted",
        }
    }
}

/// Why a DELETE was not sent.
pub(super) enum NotSent {
    /// It is no longer needed.
    Dropped(Dropped),
    /// The key is re-evaluated.
    Interrupted(Interrupted),
}

impl From<Interrupted> for NotSent {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}
