//! The delete pool's work: decides on one object and carries the decision out.

mod birth;
mod classify;
mod confirm;
mod confirmations;
mod context;
mod decide;
mod deletion;
mod foreground;
mod large;
mod last_look;
mod look_ups;
mod pace;
mod precondition;
mod remove_references;
mod verify;
mod work;

#[cfg(test)]
mod tests;

pub use self::birth::Births;
pub use self::context::DeleteContext;
pub use self::large::{LARGE_WORKERS, LargeWork, large_backoff};
pub use self::work::DeleteWork;
