//! Messages to a monitor.

use actix::Message;

/// The type is no longer served: end when the watch ends, after 30 s at the latest.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Drain;

/// End at once. Answered when its watch is closed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Stop;
