//! The controller: actors that feed the graph and hand out its work, and what their workers do with a
//! key.

#![allow(missing_docs, reason = "a comment has to say more than the name; the crate is not published")]

pub mod actors;
pub mod worker;
