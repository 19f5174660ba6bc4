//! Who of several replicas may write: leader election by a Lease, after the rules
//! of client-go.
//!
//! [`decide()`] is the core: what follows from the record of the lease as it was last
//! seen to change. The [`Elector`] reads and writes the Lease and tells the
//! [write gate](crate::api::WriteGate) until when it is open; whatever else happens
//! to the elector, the gate closes by itself then. A standby does everything that a
//! leader does but write, so that taking over is no more than opening the gate.
//!
//! Times are those of this machine's own clock, for the clocks of two machines are
//! never the same: a lease has expired when its record has not changed for as long
//! as it says. What it says of the time of day is for people.

mod annotations;
mod decide;
mod elector;
mod identity;
mod lease;
mod record;

#[cfg(test)]
mod tests;

pub use annotations::{LeaseAnnotations, NoAnnotations};
pub use decide::{LeaseAction, Observation, decide};
pub use elector::{Elector, Timing};
pub use identity::ReplicaId;
pub use lease::{ApiLeases, LeaseError, LeaseName, Leases};
pub use record::Record;
