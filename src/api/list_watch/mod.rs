//! Following one resource type: list, watch, and what goes wrong in between.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;

use super::client::Api;
use super::error::ApiError;
use crate::object::{GroupResource, ObjectFacts, ResourceType, ResourceVersion};

/// The last resource version seen of every type. It outlives the [`ListWatch`]es:
/// no list may go back behind it. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct HighWater(Arc<DashMap<GroupResource, ResourceVersion>>);

impl HighWater {
    /// The last version seen of a type.
    #[must_use]
    pub fn get(&self, resource: &GroupResource) -> Option<ResourceVersion> {
        self.0.get(resource).map(|version| version.clone())
    }

    /// Forgets all: the store was restored, and time begins anew.
    pub fn forget_all(&self) {
        self.0.clear();
    }
}

/// Where a [`ListWatch`] starts from.
#[derive(Clone, Debug)]
pub struct WatchStart {
    /// The versions seen so far.
    pub high_water: HighWater,
    /// Served by an aggregated API, whose versions may go back without meaning it.
    pub aggregated: bool,
}

/// An object as a watch showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// ADDED or MODIFIED.
    Seen(ObjectFacts),
    /// DELETED, with the last state.
    Deleted(ObjectFacts),
}

/// What a [`ListWatch`] has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A list begins; what was listed since the last `ListBegan` without a
    /// `ListEnded` counts for nothing.
    ListBegan,
    /// Objects of the list.
    Items(Vec<ObjectFacts>),
    /// The list is complete and stands for this version.
    ListEnded {
        /// The list's version.
        resource_version: Option<ResourceVersion>,
    },
    /// What the watch showed, in order; at least one, and as many as had arrived.
    Events(Vec<Sighting>),
    /// All is quiet up to the last version seen.
    Bookmark,
    /// The watch has ended, as watches do; it is resumed, or the type is listed anew.
    WatchEnded,
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

/// Follows one resource type. Dropping it ends it.
#[derive(Debug)]
pub struct ListWatch {
    resource: Arc<ResourceType>,
}

impl Api {
    /// Follows a resource type: lists it and watches it from there on. Nothing is
    /// sent before the first [`next`](ListWatch::next).
    #[must_use]
    pub fn watch(&self, resource: Arc<ResourceType>, start: WatchStart) -> ListWatch {
        let _ = start;
        ListWatch { resource }
    }
}

impl ListWatch {
    /// The type that it follows.
    #[must_use]
    pub fn resource(&self) -> &Arc<ResourceType> {
        &self.resource
    }

    /// The next step; `None` when it has ended after [`drain`](Self::drain).
    /// Loses nothing when it is dropped before it is done.
    pub async fn next(&mut self) -> Option<Step> {
        unimplemented!()
    }

    /// From now on a watch that ends is not resumed: the type is no longer
    /// served, and what is left of it are the last events of this watch.
    pub fn drain(&mut self) {}

    /// How many objects without a uid it has passed over.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        0
    }
}
