//! The controller: actors that feed the graph and hand out its work, and what their workers do with a
//! key.

pub mod actors;
pub mod worker;
