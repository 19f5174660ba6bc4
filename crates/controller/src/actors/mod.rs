//! The actors: thin shells that feed the graph and hand out its work.
//!
//! ```text
//! Discovery ─▶ Monitor × type ─▶ Graph × partition ─▶ Delete pool, Orphan pool
//! ```
//!
//! Beside them, [`lifecycle`] opens and closes the pools, and [`metrics`] samples all of them.
//!
//! Each actor owns its state and communicates by messages. A question to a partition is a closure: see
//! [`graph_handle`]. Long work (requests, decoding) runs as a task on the thread pool, and the actor that
//! spawned it notices its end. [`crate::worker`] contains the work that pools do on a key.

/// Makes types messages to an actor, each with the type of the answer.
macro_rules! messages {
    ($($message:ty => $answer:ty),+) => {
        $(impl actix::Message for $message {
            type Result = $answer;
        })+
    };
}

pub mod absent_owner_cache;
pub mod batch;
pub mod discovery;
pub mod graph;
pub mod graph_handle;
pub mod graph_queue;
pub mod lifecycle;
pub mod messages;
pub mod metrics;
pub mod monitor;
pub mod pool;
pub mod registry;
pub mod supervision;

#[cfg(test)]
pub mod tests;

pub use supervision::{Placement, on_fatal};
