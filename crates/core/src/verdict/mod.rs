//! The verdict on one object: pure functions from what is known to what to do.
//!
//! A worker calls them in this order:
//!
//! 1. [`precheck()`] looks at the object itself.
//! 2. [`named()`] and [`from_state`] classify each reference by the graph, and [`from_live`] by a
//!    live read where the graph does not know.
//! 3. [`decide()`] decides.
//! 4. [`after_patch`] says which version the DELETE after a patch is conditional on, and
//!    [`after_conflict`] what to do after a 409.
//!
//! They implement rules 4.1 to 4.33 of `docs/semantics.md`.

mod class;
mod conflict;
mod decide;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use class::{Confirmation, ReferenceClass, from_live, from_state, named};
pub use conflict::{
    AfterConflict, Basis, CONFLICTS_BEFORE_UID_ALONE, Dependents, after_conflict, after_patch,
};
pub use decide::{Decision, IdleReason, KeepReason, ParkReason, Precheck, decide, precheck};
