//! The log and the metrics.
//!
//! [`names`] declares each metric once, [`labels`] the values of its labels. Code records through the
//! typed functions of [`record`] and never spells a name or a label. The number of resource types
//! bounds the number of series; objects never add one.

mod exporter;
mod histogram;
pub mod labels;
mod lines;
pub mod logging;
pub mod names;
pub mod record;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;

pub use exporter::Exporter;
pub use histogram::Distribution;
pub use kube_gc_config::DecisionLines;
pub use kube_gc_core::text::escape::Escaped;
pub use labels::{ApiSide, EventKind, InvalidReference, MonitorState, Queue, StuckReason};
pub use lines::{ObjectView, PrintedReference, Structured, Timestamp, owner_reference};
pub use record::{DeletionLag, EventLag, EventMetrics, GraphSize, QueueMetrics, QueueSample};
