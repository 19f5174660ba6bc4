//! The messages that actors send each other, by receiver.

mod discovery;
mod graph;
mod graph_export;
mod insight;
mod lifecycle;
mod monitor;
mod pool;

pub use discovery::*;
pub use graph::*;
pub use graph_export::*;
pub use insight::*;
pub use lifecycle::*;
pub use monitor::*;
pub use pool::*;
