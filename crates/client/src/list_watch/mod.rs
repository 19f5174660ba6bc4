//! Following one resource type: list, watch, and what goes wrong in between.
//!
//! `machine` holds the rules, as a state machine without I/O, and `pace` decides when the next
//! request may be sent. `driver` goes from stage to stage and sends what the machine asks for,
//! `reading` reads the answers, and their results are reported to the machine.

mod driver;
mod machine;
mod pace;
mod reading;

use std::time::Duration;

use futures::future::BoxFuture;
use http::Response;
use kube::client::Body;
use tokio::time::Instant;

use super::error::ApiError;
pub use driver::ListWatch;
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::ResourceVersion;
use kube_gc_decode::{Change, Decoded, Encoding, Envelope, ListReader, WatchReader};

/// What a [`ListWatch`] makes of each object of a list, and of each event about one.
pub trait Watched: Sized + Send + 'static {
    /// Whether it needs whole objects, in JSON, rather than their metadata.
    const WHOLE: bool;

    /// Reads an object.
    ///
    /// # Errors
    ///
    /// It cannot be read. It is never skipped: it may be anything.
    fn read(change: Change, encoding: Encoding, object: &[u8]) -> Result<Decoded<Self>, String>;
}

impl Watched for WatchEvent {
    const WHOLE: bool = false;

    fn read(change: Change, encoding: Encoding, object: &[u8]) -> Result<Decoded<Self>, String> {
        let event = if change == Change::Deleted { Self::Delete } else { Self::Apply };
        let Decoded { version, object } = Decoded::read(encoding, object)?;
        Ok(Decoded { version, object: object.map(event) })
    }
}

/// Which of the two is being read: a list takes much CPU for a short time, a watch little for
/// a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    List,
    Watch,
}

/// What a [`ListWatch`] reports. `Init`, `InitApply` and `InitDone` mean
/// the same as in kube's `watcher::Event`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<E = WatchEvent> {
    /// A list begins. Objects that were listed since the last `Init` without an `InitDone` are
    /// to be discarded.
    Init {
        /// The list's version, or of a streamed list the least that it can be, if it is known
        /// already. Then the list is not older than anything that was seen of the type.
        resource_version: Option<ResourceVersion>,
    },
    /// Objects of the list. A streamed list may also delete one that it has shown before.
    InitApply(Vec<E>),
    InitDone {
        resource_version: Option<ResourceVersion>,
    },
    /// What the watch showed, in order: at least one `Apply` or `Delete`, and all that had
    /// arrived.
    Events(Vec<E>),
    /// The watch has shown everything up to this version.
    Bookmark {
        resource_version: Option<ResourceVersion>,
    },
    /// What had failed works again: the watch was resumed, or begins after a list.
    Resumed,
    /// The watch ended, as every watch does. It is resumed, or the type is listed again.
    WatchEnded,
    /// The watch cannot be resumed, because the server no longer has the events after the last
    /// version seen. The type is listed again.
    Expired {
        error: ApiError,
    },
    /// Something failed and is retried.
    Failed {
        error: ApiError,
        retry_in: Duration,
    },
    /// The server's store went back in time: it was restored from a backup. Before any further
    /// write, every absence must be forgotten and the graph rebuilt. The type is listed again.
    StoreRestored {
        seen: ResourceVersion,
        found: ResourceVersion,
    },
}

/// The next action of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// Wait.
    Wait(Duration),
    /// Request a list or its next page.
    List(ListFrom),
    /// Request a list as the beginning of a watch that lasts this long: at this version or a later
    /// one, or at any version if nothing was seen before.
    Stream { not_older_than: Option<ResourceVersion>, lasting: Duration },
    /// Request the present version: a consistent list of one object.
    Check,
    /// Watch from this version on, for this long.
    Watch { from: Option<ResourceVersion>, lasting: Duration },
}

/// Which list to request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ListFrom {
    /// Any version from the server's cache, because nothing was seen before. In one piece: pages
    /// are read from the store, and for a type with many objects, the version of the first page
    /// may be too old for a watch when the last page arrives (kube-rs/kube#1748).
    Cache,
    /// The server's cache, at this version or a later one.
    NotOlderThan(ResourceVersion),
    /// The present state of the store, in pages.
    Store,
    /// The page with this continue token.
    Page(String),
}

/// What a list's version means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ListFreshness {
    /// The list is valid.
    Fresh,
    /// The list is older than what was seen, and is discarded.
    Stale,
    /// The store itself is older than what was seen: it was restored.
    Restored { seen: ResourceVersion, found: ResourceVersion },
}

/// How a watch ended.
#[derive(Clone, Debug)]
enum End {
    Closed,
    /// It did not end in time, and nothing arrived.
    Silent,
    /// It was refused, broke, or ended with an ERROR event.
    Failed(ApiError),
}

/// The present stage. It holds all futures in progress, so that dropping the future of `next`
/// loses nothing.
enum Stage<E> {
    Idle,
    Waiting(Instant),
    /// Waits until the API server is reachable.
    Held(BoxFuture<'static, ()>),
    Checking(BoxFuture<'static, Result<Envelope, ApiError>>),
    /// Waits until the response begins.
    Opening {
        opens: Opens,
        opening: BoxFuture<'static, Result<Response<Body>, ApiError>>,
    },
    Listing(Listing<E>),
    Watching(Box<Watching>),
}

/// What a response opens.
enum Opens {
    List { first: bool, since: Instant },
    Watch { deadline: Instant, list: Option<StreamedList> },
}

impl<E> Stage<E> {
    /// Whether it is a watch that follows a list, or the request of one.
    fn is_watch(&self) -> bool {
        match self {
            Self::Opening { opens: Opens::Watch { list, .. }, .. } => list.is_none(),
            Self::Watching(watching) => watching.list.is_none(),
            _ => false,
        }
    }

    /// The phase of this stage. `None` for idle stages, which belong to both phases.
    const fn phase(&self) -> Option<Phase> {
        match self {
            Self::Idle | Self::Waiting(_) | Self::Held(_) | Self::Checking(_) => None,
            Self::Opening { opens: Opens::List { .. }, .. } | Self::Listing(_) => Some(Phase::List),
            Self::Opening { .. } | Self::Watching(_) => Some(Phase::Watch),
        }
    }
}

struct Listing<E> {
    body: Body,
    items: ListReader,
    batch: Vec<E>,
    /// Bytes that arrived since the last batch.
    unread: usize,
    objects: usize,
    /// Whether this is the first page, whose version decides whether the list is valid.
    first: bool,
    /// `Init` was reported.
    begun: bool,
    since: Instant,
    /// The next part must arrive before this.
    deadline: Instant,
}

struct Watching {
    body: Body,
    events: WatchReader,
    /// The watch must end before this.
    deadline: Instant,
    /// After a failure: when a watch without events counts as working.
    lives: Option<Instant>,
    /// The list that the watch begins with, until it is complete.
    list: Option<StreamedList>,
}

/// A streamed list: the initial events of a watch, up to the bookmark that ends them.
struct StreamedList {
    /// `Init` was reported.
    begun: bool,
    /// The version that the request requires.
    not_older_than: Option<ResourceVersion>,
    /// The next part must arrive before this.
    patience: Instant,
}

#[cfg(test)]
mod tests;
