//! What people and machines see of a collector: its log and metrics, and the two listeners with the
//! form of their pages.

// An application has neither listeners nor this log.
#![cfg_attr(not(feature = "serve"), allow(dead_code))]

pub mod access;
#[cfg(feature = "serve")]
pub mod http;
pub mod readiness;
pub mod telemetry;
