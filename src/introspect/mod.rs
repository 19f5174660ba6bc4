//! Read models of the collector: its status, its metrics, stuck objects, the last decisions, the graph,
//! the answers to questions about it, and the debug pages that show them.

mod answers;
pub mod decision_log;
pub mod graph_export;
mod idle;
pub mod introspection;
#[cfg(feature = "node")]
pub mod node;
#[cfg(feature = "cli")]
mod pages;
pub mod queries;
pub mod questions;
mod readiness;
mod search;
pub mod status;
#[cfg(feature = "cli")]
pub mod stream;
pub mod stuck;
pub mod view;

pub use decision_log::DecisionLog;
pub use introspection::CollectorIntrospection;
#[cfg(feature = "cli")]
pub use pages::debug_router;
pub use queries::IdleQuery;
pub use status::CollectorStatus;
pub use view::{IdleReport, MonitorStatus, QueueCounts, QueueStatus};
