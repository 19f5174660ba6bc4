//! Following one resource type: list, watch, and what goes wrong in between.
//!
//! `machine` holds the rules, as a state machine without I/O, and `pace` decides when the next
//! request may be sent. `driver` goes from `stage` to stage: `requests` sends what the machine asks
//! for, `reading` and `streaming` read the answers, and their results are reported to the machine.

mod action;
mod driver;
mod machine;
mod pace;
mod reading;
mod requests;
mod stage;
mod step;
mod streaming;
#[cfg(test)]
mod tests;

pub use driver::ListWatch;
pub use step::{Phase, Step, WatchStart};
