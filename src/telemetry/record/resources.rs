//! Metrics of resource types: their events and their monitors.

use metrics::Counter;

use super::{Value, counter, float, gauge, names};
use kube_gc_core::object::GroupResource;

/// The counters of incoming events of one type. They are looked up once, because there may be
/// a million events per second.
#[derive(Clone)]
pub struct EventMetrics {
    listed: Counter,
    added: Counter,
    modified: Counter,
    deleted: Counter,
    bookmark: Counter,
}

/// The kind of an incoming event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An object in a list.
    Listed,
    /// ADDED.
    Added,
    /// MODIFIED.
    Modified,
    /// DELETED.
    Deleted,
    /// BOOKMARK.
    Bookmark,
}

impl EventKind {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Listed, Self::Added, Self::Modified, Self::Deleted, Self::Bookmark];

    /// The value of the label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Bookmark => "bookmark",
        }
    }
}

impl EventMetrics {
    /// Looks up the counters of a type, and creates their series with the value zero.
    #[must_use]
    pub fn new(resource: &GroupResource) -> Self {
        let of = |kind: EventKind| {
            counter(&names::EVENTS, [Value::Display(resource), Value::Static(kind.label())])
        };
        Self {
            listed: of(EventKind::Listed),
            added: of(EventKind::Added),
            modified: of(EventKind::Modified),
            deleted: of(EventKind::Deleted),
            bookmark: of(EventKind::Bookmark),
        }
    }

    /// Counts incoming events.
    pub fn came(&self, kind: EventKind, count: usize) {
        let counter = match kind {
            EventKind::Listed => &self.listed,
            EventKind::Added => &self.added,
            EventKind::Modified => &self.modified,
            EventKind::Deleted => &self.deleted,
            EventKind::Bookmark => &self.bookmark,
        };
        counter.increment(u64::try_from(count).unwrap_or(u64::MAX));
    }
}

impl std::fmt::Debug for EventMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventMetrics").finish_non_exhaustive()
    }
}

/// Counts a monitor that failed unexpectedly and was restarted.
pub fn monitor_restarted() {
    counter(&names::MONITOR_RESTARTS, []).increment(1);
}

/// The state of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MonitorState {
    /// The first list is in progress, without an error so far.
    Syncing,
    /// The graph contains its list and all later events.
    Synced,
    /// Its type cannot be listed or watched.
    Failing,
    /// Its type is no longer served, and the graph is applying the last events.
    Draining,
}

impl MonitorState {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Syncing, Self::Synced, Self::Failing, Self::Draining];

    /// The value of the label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Syncing => "syncing",
            Self::Synced => "synced",
            Self::Failing => "failing",
            Self::Draining => "draining",
        }
    }
}

/// Records the number of monitors in a state.
pub fn monitors(state: MonitorState, count: usize) {
    gauge(&names::MONITORS, [Value::Static(state.label())]).set(float(count));
}

/// Records whether a type is synced. To be called with `true` when it is no longer served,
/// because a series cannot be removed at once and would keep an alert firing.
pub fn resource_synced(group: &str, version: &str, resource: &str, synced: bool) {
    let labels = [Value::Text(group), Value::Text(version), Value::Text(resource)];
    gauge(&names::RESOURCE_UNSYNCED, labels).set(if synced { 0.0 } else { 1.0 });
}

/// Counts a list or watch that failed.
pub fn resource_sync_error(group: &str, version: &str, resource: &str) {
    let labels = [Value::Text(group), Value::Text(version), Value::Text(resource)];
    counter(&names::RESOURCE_SYNC_ERRORS, labels).increment(1);
    counter(&names::RESOURCES_SYNC_ERRORS, []).increment(1);
}

/// Counts a failure of discovery, as a whole or for one group.
pub fn discovery_error() {
    counter(&names::DISCOVERY_ERRORS, []).increment(1);
    counter(&names::RESOURCES_SYNC_ERRORS, []).increment(1);
}

/// Records whether a part of the API cannot be discovered.
pub fn undiscovered(group: &str, version: Option<&str>, failing: bool) {
    let labels = [Value::Text(group), Value::Text(version.unwrap_or_default())];
    gauge(&names::UNDISCOVERED, labels).set(if failing { 1.0 } else { 0.0 });
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    for state in MonitorState::ALL {
        monitors(state, 0);
    }
    for metric in [&names::RESOURCES_SYNC_ERRORS, &names::DISCOVERY_ERRORS, &names::MONITOR_RESTARTS] {
        counter(metric, []).increment(0);
    }
}
