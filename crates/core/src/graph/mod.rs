//! The graph of owners and dependents.
//!
//! A [`Partition`] is the entry point. It takes [`WatchEvent`]s from monitors, and [`Link`]s from
//! other partitions. It answers with [`Effects`]: keys to work on, links and reports. Workers ask it
//! for a [`Snapshot`] of the object that they work on.
//!
//! The data is in `store` (nodes) and `edges` (owner references); `node` has what they consist of.
//! The other files are the rules, each a part of `impl Partition`:
//!
//! | File | Rules |
//! |---|---|
//! | `message` | what goes in and what comes out |
//! | `observe`, `delete`, `attach` | what follows from an object or a list, a deletion or a proof, a reference |
//! | `foreground` | progress of foreground deletions, and those that wait for each other |
//! | `catalog` | resource types that appear, disappear and change |
//! | `peers` | owners in partition 0 with dependents elsewhere |
//! | `shared_uid` | objects served under two resources |
//! | `query`, `pages` | what workers ask |
//! | `inspect`, `below`, `stuck`, `dump` | what people ask |

mod attach;
mod below;
mod catalog;
mod delete;
pub mod dump;
mod edges;
mod foreground;
mod inspect;
mod message;
mod node;
mod observe;
mod pages;
mod partition;
mod peers;
mod query;
mod shared_uid;
mod store;
mod stuck;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use attach::LARGE;
pub use below::Below;
pub use delete::{Finding, Verification};
pub use dump::Dump;
pub use inspect::{
    DependentSummary, Fit, NodePresence, NodeView, Ranked, SearchQuery, TypeCount, ViewLimits,
};
pub use message::{DeletesProve, Effects, Epoch, Link, Report, WatchEvent};
pub use pages::{Cursor, DependentId, DependentView, Member, MemberMark, MemberPage, MembersOf};
pub use partition::{ExpectedChange, Partition, Stats};
pub use peers::Sharding;
pub use query::{
    ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView, ReferenceSnapshot, Snapshot,
};
pub use stuck::{
    StuckCause, StuckCount, StuckDetail, StuckFilter, StuckObject, StuckObjects, keep_first_of_each,
};

/// The number of a partition; 0 has the cluster-scoped objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u16);
