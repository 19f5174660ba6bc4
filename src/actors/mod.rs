//! The actors: thin shells that feed the graph, hand out its work and do it.
//!
//! ```text
//! Discovery ─▶ Monitor × type ─▶ Graph × partition ─▶ Delete pool, Orphan pool
//! ```
//!
//! Each owns its state and speaks by the messages of [`messages`]. Whatever takes
//! time (requests, decoding) runs as a task on the thread pool; the actor that
//! spawned it notices its end.

mod brake;
mod comparison;
mod context;
mod controller;
mod decision;
mod delete;
mod discovery;
mod expectations;
mod graph;
mod graph_handle;
mod graph_queue;
mod introspection;
mod journal;
mod lanes;
mod memory;
pub mod messages;
mod metrics;
mod monitor;
mod orphan;
mod outbox;
mod picture;
mod pool;
mod registry;
mod release;
mod repeats;
mod reporter;
mod stuck;
mod supervision;
mod view;
mod worker;

#[cfg(test)]
mod tests;

pub use brake::{Brake, DELETION_PAUSED, DELETION_RESUMED, Engagement};
pub use comparison::Comparison;
pub use controller::{Controller, ControllerSettings};
pub use decision::{Basis, Decision, DecisionObserver, JudgedOwner};
pub use delete::Evidence;
pub use discovery::{DiscoverySettings, DiscoveryStatus, Phase};
pub use introspection::Introspected;
pub use journal::{Journal, JournalEntry};
pub use orphan::PAGE as ORPHAN_PAGE;
pub use pool::{Failing, PoolStatus, RetryReason};
pub use registry::MonitorState;
pub use reporter::OWNER_REF_INVALID_NAMESPACE;
pub use supervision::{FATAL_EXIT_CODE, GraphThreads, Placement, hear_last_words};
pub use view::View;
