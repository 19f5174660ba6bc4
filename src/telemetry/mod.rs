//! The log and the metrics.
//!
//! [`names`] declares each metric once. Code records through the typed functions of
//! [`record`] and never spells a name or a label. The number of resource types bounds the
//! number of series; objects never add one.

mod docs;
mod escape;
mod exporter;
mod format;
mod histogram;
pub mod labels;
mod log_writer;
pub mod logging;
pub mod names;
pub mod record;
mod recorder;
mod threads;

pub use docs::markdown;
pub use escape::Escaped;
pub use exporter::{Exporter, InstallError};
pub use record::{
    ApiSide, DeletionLag, EventKind, EventLag, EventMetrics, GraphSize, InvalidReference, MonitorState,
    Queue, QueueMetrics, QueueSample, StuckReason,
};
pub use recorder::Recorder;
