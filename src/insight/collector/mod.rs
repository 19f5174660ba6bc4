//! The debug pages of a running collector as a source of answers.

mod client;
mod connection;
mod endpoint;
mod events;
mod find;

pub use client::{Collector, Decision, Page, Reach, Record, Stuck};
pub use connection::CollectorError;
pub use endpoint::{CollectorOptions, Credentials, Endpoint};
pub use events::Events;
pub use find::{SearchScope, find};

#[cfg(test)]
mod tests;
