//! The verdict on one object: pure functions from what is known to what to do.
//!
//! A worker goes through it in order: [`precheck`] at the snapshot; then a class for
//! every reference, from the graph ([`from_graph`], [`from_state`]) and, where the graph
//! cannot say, from a live read ([`from_live`]); then [`decide()`]. When the API server
//! answers 409, [`after_conflict`] says how it goes on; after a patch, [`after_patch`]
//! says what the DELETE may be bound to. They implement rules 4.1 to 4.33 of
//! `docs/semantics.md`; no I/O, no clock.

mod class;
mod confirm;
mod conflict;
mod decide;
mod precheck;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use class::{GraphClass, ReferenceClass, from_graph, from_live, from_state};
pub use confirm::Confirmation;
pub use conflict::{
    AfterConflict, Basis, CONFLICTS_BEFORE_UID_ALONE, Dependents, after_conflict, after_patch,
};
pub use decide::{Decision, Explanation, KeepReason, ParkReason, decide};
pub use precheck::{IdleReason, Precheck, precheck};
