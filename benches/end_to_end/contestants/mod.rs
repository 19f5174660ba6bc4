//! Those who are measured.

pub mod kube_gc;
pub mod limit;
pub mod peer;
pub mod process;
