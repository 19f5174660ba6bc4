//! Leader election through a Lease, by the rules of client-go. Only the leader writes.
//!
//! `decide` is the functional core: it derives the next action from the Lease's record and
//! from when that last changed. The [`Elector`] reads and writes the Lease, and tells the
//! [write gate](kube_gc_client::WriteGate) until when it is open. The gate closes at that deadline
//! by itself, whatever happens to the elector. A standby does everything that a leader does
//! except write, so a takeover only opens the gate.
//!
//! All times come from this machine's own clock, because the clocks of two machines differ: a
//! lease has expired when its record has not changed for the lease duration. The timestamps in
//! the Lease are informative.

mod decide;
mod elector;
mod lease;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;

#[cfg(test)]
mod tests;

pub use elector::{Elector, Timing};
pub use lease::{ApiLeases, LeaseAnnotations, LeaseError, LeaseName, Leases, NoAnnotations, ReplicaId};
