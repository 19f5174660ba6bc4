//! What the collector says about itself: its log and its metrics.
//!
//! Every metric is declared once, in [`names`]; code records through the typed
//! functions of [`record`] and never spells a name or a label. Labels are
//! bounded by the number of resource types, never by the number of objects.

mod docs;
mod escape;
mod exporter;
mod format;
mod histogram;
pub mod labels;
mod lines;
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
