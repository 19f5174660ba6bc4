//! Following one resource type: list, watch, and what goes wrong in between.
//!
//! `machine` holds the rules, as a state machine without I/O, and `pace` decides when the next
//! request may be sent. `driver` makes the requests that the machine asks for, `reading` reads
//! their answers, and both report the results to the machine.

mod driver;
mod machine;
mod pace;
mod reading;
mod step;
#[cfg(test)]
mod tests;

pub use driver::ListWatch;
pub use step::{Phase, Step, WatchStart};
