//! Leader election through a Lease, by the rules of client-go. Only the leader writes.
//!
//! [`decide()`] is the functional core: it derives the next action from the Lease's record and
//! from when that last changed. The [`Elector`] reads and writes the Lease, and tells the
//! [write gate](kube_gc_client::WriteGate) until when it is open. The gate closes at that deadline
//! by itself, whatever happens to the elector. A standby does everything that a leader does
//! except write, so a takeover only opens the gate.
//!
//! All times come from this machine's own clock, because the clocks of two machines differ: a
//! lease has expired when its record has not changed for the lease duration. The timestamps in
//! the Lease are informative.

mod annotations;
mod decide;
mod elector;
mod identity;
mod lease;
mod record;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;

#[cfg(test)]
mod tests;

pub use annotations::{LeaseAnnotations, NoAnnotations};
pub use decide::{LeaseAction, Observation, decide};
pub use elector::{Elector, Timing};
pub use identity::ReplicaId;
pub use lease::{ApiLeases, LeaseError, LeaseName, Leases};
pub use record::Record;
