//! Recording resource types: what comes in of them, and how their monitors do.

use metrics::Counter;

use super::{Value, counter, float, gauge, names};
use kube_gc_core::object::GroupResource;

/// What comes in of one type, counted. Looked up once: there may be a million events
/// in a second.
#[derive(Clone)]
pub struct EventMetrics {
    listed: Counter,
    added: Counter,
    modified: Counter,
    deleted: Counter,
    bookmark: Counter,
}

/// How something came in.
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
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Listed, Self::Added, Self::Modified, Self::Deleted, Self::Bookmark];

    /// The label's value.
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
    /// The metrics of a type; they are there, as zeros, from now on.
    #[must_use]
    pub fn new(resource: &GroupResource) -> Self {
        let of =
            |kind: EventKind| counter(&names::EVENTS, [Value::Shown(resource), Value::Static(kind.label())]);
        Self {
            listed: of(EventKind::Listed),
            added: of(EventKind::Added),
            modified: of(EventKind::Modified),
            deleted: of(EventKind::Deleted),
            bookmark: of(EventKind::Bookmark),
        }
    }

    /// So many came in.
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

/// A monitor failed unexpectedly and was started again.
pub fn monitor_restarted() {
    counter(&names::MONITOR_RESTARTS, []).increment(1);
}

/// How far a monitor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MonitorState {
    /// Listing for the first time; nothing has gone wrong so far.
    Syncing,
    /// Its list and everything since is in the graph.
    Synced,
    /// It cannot be listed or watched.
    Failing,
    /// Its type is no longer served; the last events are being taken in.
    Draining,
}

impl MonitorState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Syncing, Self::Synced, Self::Failing, Self::Draining];

    /// The label's value.
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

/// How many monitors are in a state now.
pub fn monitors(state: MonitorState, count: usize) {
    gauge(&names::MONITORS, [Value::Static(state.label())]).set(float(count));
}

/// Whether a type is synced. Call with `true` when it is no longer served, too:
/// a series cannot be taken back, and a type that is gone is nobody's problem.
pub fn resource_synced(group: &str, version: &str, resource: &str, synced: bool) {
    let labels = [Value::Text(group), Value::Text(version), Value::Text(resource)];
    gauge(&names::RESOURCE_UNSYNCED, labels).set(if synced { 0.0 } else { 1.0 });
}

/// A type could not be listed or watched.
pub fn resource_sync_error(group: &str, version: &str, resource: &str) {
    let labels = [Value::Text(group), Value::Text(version), Value::Text(resource)];
    counter(&names::RESOURCE_SYNC_ERRORS, labels).increment(1);
    counter(&names::RESOURCES_SYNC_ERRORS, []).increment(1);
}

/// Discovery failed, as a whole or for some group.
pub fn discovery_error() {
    counter(&names::DISCOVERY_ERRORS, []).increment(1);
    counter(&names::RESOURCES_SYNC_ERRORS, []).increment(1);
}

/// Whether a part of the API cannot be discovered.
pub fn undiscovered(group: &str, version: Option<&str>, failing: bool) {
    let labels = [Value::Text(group), Value::Text(version.unwrap_or_default())];
    gauge(&names::UNDISCOVERED, labels).set(if failing { 1.0 } else { 0.0 });
}

/// The series of this part, as zeros.
pub(super) fn zeros() {
    for state in MonitorState::ALL {
        monitors(state, 0);
    }
    for metric in [&names::RESOURCES_SYNC_ERRORS, &names::DISCOVERY_ERRORS, &names::MONITOR_RESTARTS] {
        counter(metric, []).increment(0);
    }
}
