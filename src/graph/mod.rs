//! The graph of owners and dependents: pure, no I/O, no clock, no actors.

mod effect;
mod event;
mod snapshot;

pub use effect::{Effects, Report};
pub use event::{Change, DeletesProve, Epoch, Intake, Link, PeerMessage};
pub use snapshot::{
    Cursor, DependentView, ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView,
    ReferenceSnapshot, Snapshot, VirtualSnapshot,
};

/// Which partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u16);
