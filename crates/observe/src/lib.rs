//! What people and machines see of a collector: its log and metrics, and the two listeners with the
//! form of their pages.

pub mod http;
pub mod telemetry;
