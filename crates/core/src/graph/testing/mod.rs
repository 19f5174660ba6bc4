//! Partitions, objects and random histories for tests of this crate and of its users.

#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "it is compiled for tests alone"
)]

mod dumps;
pub mod histories;
pub mod words;
pub mod world;
