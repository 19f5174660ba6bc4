//! The contestants.

pub mod kube_gc;
pub mod limit;
pub mod peer;
pub mod process;
