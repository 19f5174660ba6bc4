//! What following a type starts from, and what it reports.

use std::time::Duration;

use crate::api::error::ApiError;
use crate::api::high_water::HighWater;
use kube_gc_core::object::{ObjectFacts, ResourceVersion};

/// Where a [`ListWatch`](super::ListWatch) starts from.
#[derive(Clone, Debug)]
pub struct WatchStart {
    /// The versions seen so far.
    pub high_water: HighWater,
    /// Served by an aggregated API, whose versions may go back without meaning it.
    pub aggregated: bool,
}

/// Which of the two is being read. A list is long, and work for a while; a watch is
/// next to no work for a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The list, or what comes before it.
    List,
    /// The watch.
    Watch,
}

/// An object as a watch showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// ADDED or MODIFIED.
    Seen(ObjectFacts),
    /// DELETED, with the last state.
    Deleted(ObjectFacts),
}

/// What a [`ListWatch`](super::ListWatch) has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A list begins; what was listed since the last `ListBegan` without a
    /// `ListEnded` counts for nothing.
    ListBegan {
        /// The version for which it stands, if that is known already: then it is not
        /// older than anything that was seen of the type.
        resource_version: Option<ResourceVersion>,
    },
    /// Objects of the list.
    Items(Vec<ObjectFacts>),
    /// The list is complete and stands for this version.
    ListEnded {
        /// The list's version.
        resource_version: Option<ResourceVersion>,
    },
    /// What the watch showed, in order; at least one, and as many as had arrived.
    Events(Vec<Sighting>),
    /// The watch has shown everything up to a version.
    Bookmark {
        /// Which one.
        resource_version: Option<ResourceVersion>,
    },
    /// What had failed works again: the watch goes on from where it was, or begins after a list.
    Resumed,
    /// The watch has ended, as watches do; it is resumed, or the type is listed anew.
    WatchEnded,
    /// The watch cannot be resumed: what came after the last version seen is not kept
    /// any more. The type is listed anew.
    Expired {
        /// In the server's words.
        error: ApiError,
    },
    /// Something went wrong; it is tried again after this time.
    Failed {
        /// What.
        error: ApiError,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The server's store has gone back in time: it was restored from a backup.
    /// Every absence must be forgotten and the graph rebuilt before any further
    /// write. The type is listed anew.
    StoreRestored {
        /// The last version seen.
        seen: ResourceVersion,
        /// The version now.
        found: ResourceVersion,
    },
}
