//! The graph of owners and dependents: pure, no I/O, no clock, no actors.

mod arena;
mod attach;
mod catalog;
mod cross_partition;
mod cycles;
mod deletion;
mod disturbance;
pub mod dump;
mod edges;
mod effect;
mod event;
mod foreground;
mod index;
mod intern;
mod keyed;
mod large;
mod names;
mod node;
mod observe;
mod partition;
mod prefetch;
mod query;
mod relist;
mod resource_versions;
mod scan;
mod sharding;
mod shared_uid;
mod snapshot;
mod store;
mod stuck;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod types;

pub use deletion::Verification;
pub use dump::Dump;

pub use effect::{Effects, Report};
pub use event::{DeletesProve, Epoch, Intake, Link, PeerMessage, WatchEvent};
pub use large::LARGE;
pub use partition::{ExpectedChange, IntakeOutcome, Partition, Stats};
pub use query::ObservedObject;
pub use sharding::Sharding;
pub use snapshot::{
    Bookmark, Cursor, DependentView, ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView,
    ReferenceSnapshot, Snapshot, VirtualSnapshot,
};
pub use store::MemoryUsage;
pub use stuck::{StuckCause, StuckCount, StuckDetail, StuckFilter, StuckObject, StuckObjects};

/// Which partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u16);
