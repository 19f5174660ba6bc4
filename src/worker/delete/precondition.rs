//! What a DELETE binds, and why one is not sent.

use crate::worker::decision::Ended;
use crate::worker::interrupted::Interrupted;
use kube_gc_core::object::ResourceVersion;

/// What was decided on is not there any more.
pub(super) const CHANGED: &str = "its owner references, finalizers or dependents changed";

/// What, besides the uid, the object must still be for the DELETE to take effect.
#[derive(Clone, Debug)]
pub(super) enum Precondition {
    /// Exactly the version that was decided on.
    Version(ResourceVersion),
    /// Only the same object: it has no version, or its status changes faster than
    /// it can be read, and what was decided on was the same at the last reading.
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

/// Why a deletion is not needed any more.
#[derive(Clone, Copy, Debug)]
pub enum Dropped {
    /// The object is gone.
    Gone,
    /// Somebody else deletes it already.
    BeingDeleted,
}

impl Ended for Dropped {
    fn word(&self) -> &'static str {
        match self {
            Self::Gone => "already_gone",
            Self::BeingDeleted => "already_being_deleted",
        }
    }
}

/// Why a DELETE was not sent.
pub(super) enum NotSent {
    /// There is no need any more.
    Dropped(Dropped),
    /// It is decided afresh.
    Interrupted(Interrupted),
}

impl From<Interrupted> for NotSent {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}
