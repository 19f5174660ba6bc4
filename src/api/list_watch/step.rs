//! What following a type starts from, and what it reports.

use std::time::Duration;

use crate::api::error::ApiError;
use crate::api::high_water::HighWater;
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::ResourceVersion;

/// Where a [`ListWatch`](super::ListWatch) starts from.
#[derive(Clone, Debug)]
pub struct WatchStart {
    /// The versions seen so far.
    pub high_water: HighWater,
    /// Whether an aggregated API serves the type. Its versions may go back at any time.
    pub aggregated: bool,
}

/// Which of the two is being read: a list takes much CPU for a short time, a watch little for
/// a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The list, or the wait before it.
    List,
    /// The watch.
    Watch,
}

/// What a [`ListWatch`](super::ListWatch) reports. `Init`, `InitApply` and `InitDone` mean
/// the same as in kube's `watcher::Event`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A list begins. Objects that were listed since the last `Init` without an `InitDone` are
    /// to be discarded.
    Init {
        /// The list's version, or of a streamed list the least that it can be, if it is known
        /// already. Then the list is not older than anything that was seen of the type.
        resource_version: Option<ResourceVersion>,
    },
    /// Objects of the list. A streamed list may also delete one that it has shown before.
    InitApply(Vec<WatchEvent>),
    /// The list is complete.
    InitDone {
        /// The list's version.
        resource_version: Option<ResourceVersion>,
    },
    /// What the watch showed, in order: at least one `Apply` or `Delete`, and all that had
    /// arrived.
    Events(Vec<WatchEvent>),
    /// The watch has shown everything up to this version.
    Bookmark {
        /// The version.
        resource_version: Option<ResourceVersion>,
    },
    /// What had failed works again: the watch was resumed, or begins after a list.
    Resumed,
    /// The watch ended, as every watch does. It is resumed, or the type is listed again.
    WatchEnded,
    /// The watch cannot be resumed, because the server no longer has the events after the last
    /// version seen. The type is listed again.
    Expired {
        /// The server's error.
        error: ApiError,
    },
    /// Something failed and is retried.
    Failed {
        /// The error.
        error: ApiError,
        /// The time until the retry.
        retry_in: Duration,
    },
    /// The server's store went back in time: it was restored from a backup. Before any further
    /// write, every absence must be forgotten and the graph rebuilt. The type is listed again.
    StoreRestored {
        /// The last version seen.
        seen: ResourceVersion,
        /// The version now.
        found: ResourceVersion,
    },
}
