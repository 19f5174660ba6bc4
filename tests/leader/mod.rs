//! Two replicas on a real API server, of which one leads (rule 8.11).
//!
//! Both are the real binary, each behind a [proxy](kube_gc_testkit::proxy) of its own. Each
//! write is logged with the moment at which the gate was asked, right before it was
//! sent, and the deadline of the lease at that moment. Their clock is the machine's, so
//! what the two replicas say can be put in one order. Waiting is for conditions, never
//! for time.

mod crowd;
mod election;
mod replica;
mod takeover;
mod writes;

use kube_gc_testkit::harness::Module;

/// All of them.
pub const ALL: &[Module] = &[takeover::SCENARIOS];
