//! The two listeners of the real binary, with TLS, and with a real API server that says
//! who may read what.

mod access;
mod certificates;
pub mod client;
mod limits;

use kube_gc_testkit::harness::Module;

/// All of them.
pub const ALL: &[Module] = &[access::SCENARIOS, certificates::SCENARIOS, limits::SCENARIOS];
