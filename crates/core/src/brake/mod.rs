//! The brake: optional limits on how much the collector deletes.
//!
//! Whoever deletes a CRD by mistake, or restores half a cluster, wants the collector to
//! stop and ask rather than to be thorough. Two limits, both off unless set: so many
//! deletions in a minute, and such a part of a resource type's objects within a window
//! ([`Limits`]). Where one is reached, the brake engages and stays engaged until
//! a person resumes: that somebody looks is the point.
//!
//! Pure: the [`Ledger`] is given the time and the sizes, and says what may be sent.
//! [`lease`] says what is written on the Lease of a group of replicas and read from
//! there. The actors' brake is the shell around both.

pub mod lease;
mod ledger;
mod limits;
#[cfg(test)]
mod tests;
mod window;

pub use ledger::{Admission, Cause, Fate, Ledger, Ticket};
pub use limits::{Limits, Share};
