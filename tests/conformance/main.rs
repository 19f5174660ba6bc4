//! What a client of the API server sees of the collector: the conformance
//! scenarios, each against a real control plane, the collector being the real
//! binary.

#[path = "../support/mod.rs"]
mod support;

mod stage;
mod user;

mod counts;
mod policies;
mod policies_foreground;
mod policies_orphan;
mod restart;
