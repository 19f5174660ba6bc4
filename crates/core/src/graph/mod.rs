//! The graph of owners and dependents: pure, no I/O, no clock, no actors.

mod ahead;
mod alias;
mod arena;
mod attach;
mod capacity;
mod catalog;
mod cycles;
mod deletion;
pub mod dump;
mod edges;
mod effect;
mod event;
mod evidence;
mod index;
mod intern;
mod large;
mod layout;
mod links;
mod lists;
mod memory;
mod names;
mod node;
mod observe;
mod partition;
mod progress;
mod query;
mod scan;
mod shown;
mod snapshot;
mod store;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod versions;
mod waiting;

pub use deletion::Verification;
pub use dump::Dump;

pub use effect::{Effects, Report};
pub use event::{Change, DeletesProve, Epoch, Intake, Link, PeerMessage};
pub use large::LARGE;
pub use layout::Layout;
pub use memory::Memory;
pub use partition::{ExpectedChange, IntakeOutcome, Partition, Stats};
pub use shown::Shown;
pub use snapshot::{
    Bookmark, Cursor, DependentView, ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView,
    ReferenceSnapshot, Snapshot, VirtualSnapshot,
};
pub use waiting::{Hindrance, Survey, Tally, Waiter, Waiters, Why};

/// Which partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u16);
