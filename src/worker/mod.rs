//! What a pool's worker does with one key: looks at it, decides, acts, reports.

pub mod absent_owner_cache;
pub mod brake;
pub mod comparison;
pub mod context;
pub mod decision;
pub mod delete;
pub mod event_recorder;
pub mod orphan;
pub mod remove_reference;
pub mod repeats;

pub use brake::{Brake, DELETION_PAUSED, DELETION_RESUMED, Engagement};
pub use comparison::Comparison;
pub use decision::{Basis, Decision, DecisionObserver, JudgedOwner};
pub use delete::Evidence;
pub use event_recorder::OWNER_REF_INVALID_NAMESPACE;
pub use orphan::PAGE as ORPHAN_PAGE;

#[cfg(test)]
mod tests;
