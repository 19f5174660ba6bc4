//! Where the answers of `kube-gc tree`, `explain`, `check`, `plan` and `stuck` come from: lists and
//! reads of the API server, or a running collector. The rules are in `crates/insight`.
//! Nothing here writes.

mod answers;
mod collector;
mod gone;
mod lists;
mod manifest;
mod plan;
#[cfg(test)]
mod schemas_tests;
mod session;
mod source;
mod tree;

use kube_gc_client::ApiError;

pub use answers::{ExplainAnswer, QueryScope};
pub use collector::{Collector, CollectorError, Credentials, Decision, Endpoint, Stuck};
pub use plan::PlanArgument;
pub use session::{ObjectArgument, Session, TypeFilter, Waiting};
pub use source::Source;
pub use tree::{Below, Cells, Hidden, MOST_OBJECTS, TreeQuery};

/// Why a question has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InsightError {
    /// The API server cannot be asked.
    #[error("{0}")]
    Api(ApiError),
    /// The collector has no answer.
    #[error("{0}")]
    Collector(#[from] CollectorError),
    /// Somebody ended the command before anything was known.
    #[error("interrupted before anything was known")]
    Interrupted,
    /// The server does not understand a label selector.
    #[error("the server does not understand the selector: {0}")]
    Selector(String),
    /// The server has no such type.
    #[error("the server doesn't have a resource type {0:?}; `kubectl api-resources` lists its types")]
    NoSuchType(String),
    /// Nobody can tell, because a part of the API does not answer.
    #[error("it is not known whether the server has a resource type {name:?}: {silent} does not answer")]
    UnreadType { name: String, silent: String },
    /// The server has such a type, of which there are no objects to list.
    #[error(
        "the server has the type {0:?}, but its objects cannot be listed, watched and deleted, so garbage collection \
         does not concern them"
    )]
    NotCollected(String),
    /// There is no such object.
    #[error("{0}")]
    NoSuchObject(String),
    /// Nothing that the question is about may be listed.
    #[error("you may not list {0}; ask for the right to list, or use another context")]
    Forbidden(String),
    /// The graph of the collector does not have the object.
    #[error("the graph of the collector has no object with the uid {0}; --from lists asks the API server")]
    NotInGraph(String),
}
