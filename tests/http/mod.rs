//! The two listeners of the binary, with TLS and with a real API server that authorizes requests.

mod access;
mod accounts;
mod certificates;
pub mod client;

use kube_gc_testkit::harness::Module;

/// All scenarios.
pub const ALL: &[Module] = &[access::SCENARIOS, certificates::SCENARIOS];
