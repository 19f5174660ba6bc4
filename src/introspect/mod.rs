//! What the collector tells of itself: its status, what is stuck, the last decisions, the graph.

pub mod answers;
pub mod decision_log;
pub mod graph_export;
pub mod status;
pub mod stuck;

pub use answers::Introspected;
pub use decision_log::{Journal, JournalEntry};
pub use status::View;
