//! `[discovery]` and `[watch]`: which resource types are watched, and how.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use kube_gc_core::object::GroupResource;

use super::text;

/// The upper bound for the default number of list threads. The API server does not send
/// faster than these read.
const MAX_DEFAULT_LIST_THREADS: usize = 4;

/// `[discovery]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverySettings {
    /// The interval between rounds of discovery that no event has triggered.
    #[serde(with = "text::duration")]
    pub interval: Duration,
    /// How long a part of the API that cannot be listed holds owners that orphan their dependents.
    #[serde(with = "text::duration")]
    pub orphan_wait: Duration,
    /// Resource types that are neither watched nor collected.
    #[serde(with = "text::group_resources")]
    pub ignored: Vec<GroupResource>,
}

impl Default for DiscoverySettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            orphan_wait: Duration::from_secs(600),
            ignored: Self::never_collected().to_vec(),
        }
    }
}

impl DiscoverySettings {
    /// Events. A cluster has many of them, they expire soon, and they have no owners.
    #[must_use]
    pub fn never_collected() -> [GroupResource; 2] {
        [GroupResource::new("", "events"), GroupResource::new("events.k8s.io", "events")]
    }
}

/// `[watch]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchSettings {
    /// Objects in one page of a list.
    pub page_size: u32,
    /// Whether to ask for lists as streams (WatchList), until the API server refuses it.
    pub streaming_lists: bool,
    /// Threads that read lists and write HTTP pages; 0 means one for each core, at most 4.
    /// See [`WatchSettings::list_thread_count`].
    pub list_threads: u16,
    /// The first backoff after a list or watch failed.
    #[serde(with = "text::duration")]
    pub min_backoff: Duration,
    /// The longest backoff after lists or watches failed.
    #[serde(with = "text::duration")]
    pub max_backoff: Duration,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            page_size: 500,
            streaming_lists: true,
            list_threads: 0,
            min_backoff: Duration::from_millis(800),
            max_backoff: Duration::from_secs(30),
        }
    }
}

impl WatchSettings {
    /// The number of list threads on a machine with this many cores.
    #[must_use]
    pub fn list_thread_count(&self, cores: usize) -> usize {
        match self.list_threads {
            0 => cores.clamp(1, MAX_DEFAULT_LIST_THREADS),
            count => count.into(),
        }
    }
}
