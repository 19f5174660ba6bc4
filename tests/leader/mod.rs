//! Two replicas on a real API server, of which one leads (rule 8.11).
//!
//! Each runs behind its own [proxy](kube_gc_testkit::proxy). Each write is logged with the moment
//! at which the gate was asked, right before the request was sent, and the deadline of the Lease at
//! that moment. They use the clock of the machine, so the events of both replicas can be ordered.
//! Scenarios wait for conditions, never for time.

mod election;
mod namespaces;
mod replica;
mod restore;
mod takeover;

use kube_gc_testkit::harness::Module;

/// All scenarios.
pub const ALL: &[Module] = &[restore::SCENARIOS, takeover::SCENARIOS, namespaces::SCENARIOS];
