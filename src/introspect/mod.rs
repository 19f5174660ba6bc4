//! Read models of the collector: its status, its metrics, stuck objects, the last decisions, the graph,
//! and the answers to questions about it.

mod causes;
pub mod decision_log;
mod explanation;
pub mod graph_export;
pub mod introspection;
pub mod metrics;
mod neighbourhoods;
#[cfg(feature = "node")]
pub mod node;
pub mod plans;
pub mod questions;
mod recent_reads;
pub mod status;
pub mod stuck;
pub mod stuck_events;

pub use decision_log::DecisionLog;
pub use introspection::CollectorIntrospection;
#[cfg(any(test, feature = "internals"))]
pub use status::CollectorStatus;
