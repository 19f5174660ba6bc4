//! Why a question has no answer.

use super::collector::CollectorError;
use crate::api::ApiError;

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
    #[error("the server has no type {0:?}; `kubectl api-resources` lists its types")]
    NoSuchType(String),
    /// There is no such object.
    #[error("{0}")]
    NoSuchObject(String),
}
