//! Whether the API server streams lists (WatchList).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::ApiError;

/// Whether lists are requested as streams. The first refusal turns that off for all types, because
/// it depends on the release and the features of the server. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct StreamingLists(Arc<AtomicBool>);

impl StreamingLists {
    /// Streams lists until the server refuses it, or never.
    pub fn new(enabled: bool) -> Self {
        Self(Arc::new(AtomicBool::new(enabled)))
    }

    /// Whether to ask for streams.
    pub fn are_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The server refused a stream, and would refuse others.
    pub fn refused(&self, error: &ApiError) {
        if self.0.swap(false, Ordering::Relaxed) {
            tracing::info!(%error, "the API server does not stream lists; they are requested in one piece");
        }
    }
}
