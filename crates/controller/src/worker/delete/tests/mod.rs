//! The state when a request is sent may differ from the state of its decision.

mod aggregated;
mod birth;
mod large;
mod last_look;
mod restores;
mod scene;
