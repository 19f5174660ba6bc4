//! Tests the oracle of the simulation with histories written by hand: for each rule, one that
//! breaks it and one that keeps it.

#[path = "../simulation/oracle/mod.rs"]
mod oracle;

mod deletes;
mod finalizers;
mod patches;
mod rest;
mod restores;
mod world;
