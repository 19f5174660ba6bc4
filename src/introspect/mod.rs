//! Read models of the collector: its status, its metrics, stuck objects, the last decisions, the graph,
//! the answers to questions about it, and the debug pages that show them.

mod answers;
pub mod decision_log;
pub mod graph_export;
pub mod introspection;
#[cfg(feature = "node")]
pub mod node;
mod pages;
pub mod questions;
pub mod status;
pub mod stuck;

pub use decision_log::DecisionLog;
pub use introspection::CollectorIntrospection;
pub use pages::debug_router;
pub use status::CollectorStatus;
