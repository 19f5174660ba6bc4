//! How far the present request of a type has come.

use futures::future::BoxFuture;
use http::Response;
use kube::client::Body;
use tokio::time::Instant;

use super::step::Phase;
use crate::api::error::ApiError;
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::ResourceVersion;
use kube_gc_decode::{Envelope, ListReader, WatchReader};

/// The present stage. It holds all futures in progress, so that dropping the future of `next`
/// loses nothing.
pub(super) enum Stage {
    Idle,
    Waiting(Instant),
    /// Waits until the API server is reachable.
    Held(BoxFuture<'static, ()>),
    Checking(BoxFuture<'static, Result<Envelope, ApiError>>),
    OpeningList {
        first: bool,
        since: Instant,
        opening: Opening,
    },
    Listing(Listing),
    OpeningStream {
        not_older_than: Option<ResourceVersion>,
        deadline: Instant,
        opening: Opening,
    },
    Streaming(Box<Streaming>),
    OpeningWatch {
        deadline: Instant,
        opening: Opening,
    },
    Watching {
        deadline: Instant,
        /// After a failure: when a watch without events counts as working.
        lives: Option<Instant>,
        body: Body,
        events: WatchReader,
    },
}

impl Stage {
    /// The phase of this stage. `None` for idle stages, which belong to both phases.
    pub(super) const fn phase(&self) -> Option<Phase> {
        match self {
            Self::Idle | Self::Waiting(_) | Self::Held(_) | Self::Checking(_) => None,
            Self::OpeningList { .. } | Self::Listing(_) => Some(Phase::List),
            Self::OpeningStream { .. }
            | Self::Streaming(_)
            | Self::OpeningWatch { .. }
            | Self::Watching { .. } => Some(Phase::Watch),
        }
    }
}

pub(super) type Opening = BoxFuture<'static, Result<Response<Body>, ApiError>>;

pub(super) struct Listing {
    pub body: Body,
    pub items: ListReader,
    pub batch: Vec<WatchEvent>,
    /// Bytes that arrived since the last batch.
    pub unread: usize,
    /// The number of objects on this page.
    pub objects: usize,
    /// Whether this is the first page, whose version decides whether the list is valid.
    pub first: bool,
    /// `Init` was reported.
    pub begun: bool,
    pub since: Instant,
    /// The next part must arrive before this.
    pub deadline: Instant,
}

/// A streamed list.
pub(super) struct Streaming {
    pub body: Body,
    pub events: WatchReader,
    pub batch: Vec<WatchEvent>,
    /// Bytes that arrived since the last batch.
    pub unread: usize,
    /// `Init` was reported.
    pub begun: bool,
    /// The version that the request requires.
    pub not_older_than: Option<ResourceVersion>,
    /// The next part must arrive before this.
    pub patience: Instant,
    /// The watch that follows must end before this.
    pub deadline: Instant,
}
