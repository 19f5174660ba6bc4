//! Why a question has no answer.

use crate::api::ApiError;

/// Why a question has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InsightError {
    /// The API server cannot be asked.
    #[error("{0}")]
    Api(ApiError),
    /// The server has no such type.
    #[error("the server has no type {0:?}; `kubectl api-resources` lists its types")]
    NoSuchType(String),
    /// There is no such object.
    #[error("{0}")]
    NoSuchObject(String),
}
