//! What a pool's worker does with one key: it decides, writes and reports.

pub mod brake;
pub mod classified;
pub mod comparison;
pub mod context;
pub mod decision;
pub mod delete;
pub mod finalizer_removal;
pub mod interrupted;
pub mod namespace_check;
pub mod namespaces;
pub mod orphan;
pub mod repeats;

pub use decision::DecisionObserver;
