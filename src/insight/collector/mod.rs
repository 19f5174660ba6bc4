//! The debug pages of a running collector as a source of answers.

mod client;
mod connection;
mod endpoint;
mod events;

pub use client::{Collector, Decision, NeighbourhoodPage, Reach, Stuck};
pub use connection::CollectorError;
pub use endpoint::{CollectorOptions, Endpoint};
pub use events::Events;

#[cfg(test)]
mod tests;
