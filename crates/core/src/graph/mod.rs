//! The graph of owners and dependents.
//!
//! A [`Partition`] is the entry point. It takes [`Intake`] from monitors and discovery, and
//! [`PeerMessage`]s from other partitions. It answers with [`Effects`]: keys to work on,
//! messages and reports. Workers ask it for a [`Snapshot`] of the object that they work on.
//!
//! The data is in `store` (nodes, found by `index`, in an `arena`), `edges` (owner references),
//! `types` and `intern` (what many nodes share). The other files are the rules, each a part of
//! `impl Partition`:
//!
//! | Files | Rules |
//! |---|---|
//! | `observe`, `relist`, `deletion`, `attach` | what follows from an object, a list, a deletion, a reference |
//! | `foreground`, `cycles` | progress of foreground deletions, and those that wait for each other |
//! | `catalog` | resource types that appear, disappear and change |
//! | `cross_partition`, `sharding` | owners in partition 0 with dependents elsewhere |
//! | `shared_uid`, `large` | objects served under two resources; objects with very many owners |
//! | `disturbance` | what is no longer proved after watches broke |
//! | `followers`, `follow` | who is woken when an answer may have changed, and by what |
//! | `query`, `scan`, `inspect`, `members`, `stuck`, `dump` | what workers and people ask |
//!
//! `state` has what single rules keep from one call to the next.

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
mod follow;
mod followers;
mod foreground;
mod index;
mod inspect;
mod intern;
mod keyed;
mod large;
mod members;
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
mod state;
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
pub use followers::Follower;
pub use inspect::{DependentSummary, NodePresence, NodeView, SearchPage, SearchQuery, TypeCount, ViewLimits};
pub use large::LARGE;
pub use members::{Member, MemberMark, MemberPage, MembersOf};
pub use partition::{ExpectedChange, IntakeOutcome, Partition, Stats};
pub use query::ObservedObject;
pub use sharding::Sharding;
pub use snapshot::{
    Bookmark, Cursor, DependentView, ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView,
    ReferenceSnapshot, Snapshot, VirtualSnapshot,
};
pub use store::MemoryUsage;
pub use stuck::{
    StuckCause, StuckCount, StuckDetail, StuckFilter, StuckObject, StuckObjects, keep_first_of_each,
};

/// The number of a partition; 0 has the cluster-scoped objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u16);
