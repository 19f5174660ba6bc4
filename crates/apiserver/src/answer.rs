//! The answer to a request.

use super::guards::Waiting;
use super::reads::Watch;
use super::reply::Reply;
use super::resources::ServiceName;

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// A complete answer.
    Whole(Reply),
    /// A stream of changes.
    Watch(Watch),
    /// The backend behind this service answers.
    Elsewhere(ServiceName),
    /// Admission takes time.
    Waits(Box<Waiting>),
}
