//! The log and the metrics.
//!
//! [`names`] declares each metric once. Code records through the typed functions of
//! [`record`] and never spells a name or a label. The number of resource types bounds the
//! number of series; objects never add one.

#[cfg(test)]
mod docs;
mod exporter;
mod format;
mod histogram;
mod json;
#[cfg_attr(
    not(any(test, feature = "internals")),
    allow(dead_code, reason = "for the documentation of the metrics and for tests")
)]
pub mod labels;
mod line_limit;
mod log_writer;
pub mod logging;
pub mod names;
mod owner_reference;
pub mod record;
mod recorder;
mod structured;
#[cfg(test)]
pub(crate) mod testing;
mod threads;

pub use exporter::Exporter;
pub use histogram::Distribution;
pub use kube_gc_core::text::escape::Escaped;
pub use owner_reference::{PrintedReference, owner_reference};
pub use record::{
    ApiSide, DeletionLag, EventKind, EventLag, EventMetrics, GraphSize, InvalidReference, MonitorState,
    Queue, QueueMetrics, QueueSample, StuckReason,
};
pub use structured::Structured;
