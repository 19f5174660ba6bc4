//! The brake: optional limits on how much the collector deletes.
//!
//! After a mistake, such as a deleted CRD or half a restore, the collector should stop and ask.
//! There are two limits, both off by default: on deletions per minute, and on the share of a
//! resource type's objects within a window ([`Limits`]). When a limit is reached, the brake
//! engages and stays engaged until a person resumes.
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

pub use ledger::{Admission, Cause, DeletionResult, Ledger, Ticket};
pub use limits::{Limits, Share};
