//! The log and the metrics.
//!
//! [`names`] declares each metric once, [`labels`] the values of its labels. Code records through the
//! typed functions of [`record`] and never spells a name or a label. The number of resource types
//! bounds the number of series; objects never add one.

#[cfg(feature = "serve")]
mod exporter;
#[cfg(not(feature = "serve"))]
#[path = "exporter_none.rs"]
mod exporter;
mod fields;
mod histogram;
pub mod labels;
#[cfg(feature = "serve")]
mod lines;
pub mod logging;
pub mod names;
pub mod record;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;

pub use exporter::Exporter;
pub use fields::{PrintedObject, PrintedReference, Structured, Timestamp, owner_reference};
pub use histogram::Distribution;
pub use kube_gc_core::text::escape::Escaped;
pub use labels::{ApiSide, EventKind, InvalidReference, MonitorState, Queue, StuckReason};
pub use record::{DeletionLag, EventLag, EventMetrics, QueueMetrics, QueueSample};
