//! The brake: optional limits on how much the collector deletes.
//!
//! After a mistake, such as a deleted CRD or half a restore, the collector should stop and ask.
//! There are three limits, all off by default: on deletions per minute, of all objects and of those
//! in one namespace, and on the share of a resource type's objects within a window ([`Limits`]).
//! When a limit is reached, the brake engages, for everything or for that namespace, and stays
//! engaged until a person resumes.
//!
//! The [`Ledger`] gets the time and the number of objects from its caller, and decides which
//! DELETEs may be sent. [`lease`] defines what the replicas share through the annotations of
//! their Lease.

pub mod lease;
mod ledger;
mod limits;
#[cfg(test)]
mod tests;
mod window;

pub use ledger::{Admission, Cause, DeletionResult, Ledger, NAMESPACES_AT_MOST, Ticket};
pub use limits::{Limits, Share};
