//! Metrics of the graph: its size, and invalid data in it.

use std::time::Duration;

use metrics::Histogram;

use super::{Value, counter, float, gauge, histogram, names};

/// The size of one graph partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphSize {
    /// Observed objects.
    pub nodes: usize,
    /// Owners that no monitor shows.
    pub virtual_nodes: usize,
    /// References.
    pub edges: usize,
    /// Memory, in bytes.
    pub bytes: usize,
    /// Owner references whose apiVersion and kind are not served.
    pub unresolved: usize,
    /// Links that have not been applied yet.
    pub outbox: usize,
}

/// Records the size of a partition.
pub fn graph(partition: usize, size: &GraphSize) {
    let GraphSize { nodes, virtual_nodes, edges, bytes, unresolved, outbox } = *size;
    for (metric, count) in [
        (&names::GRAPH_NODES, nodes),
        (&names::GRAPH_VIRTUAL_NODES, virtual_nodes),
        (&names::GRAPH_EDGES, edges),
        (&names::GRAPH_BYTES, bytes),
        (&names::UNRESOLVED_REFERENCES, unresolved),
        (&names::GRAPH_OUTBOX, outbox),
    ] {
        gauge(metric, [Value::Display(&partition)]).set(float(count));
    }
}

/// Counts a restore of the API server's store.
pub fn store_restored() {
    counter(&names::STORE_RESTORED, []).increment(1);
}

/// The time from the arrival of a change until the graph contains it.
#[derive(Clone)]
pub struct EventLag(Histogram);

impl EventLag {
    /// Looks up the metric, and creates its series.
    #[must_use]
    pub fn new() -> Self {
        Self(histogram(&names::EVENT_LAG, []))
    }

    /// Records that this many changes took this long.
    pub fn took(&self, duration: Duration, count: usize) {
        self.0.record_many(duration, count);
    }
}

impl Default for EventLag {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for EventLag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLag").finish_non_exhaustive()
    }
}

/// Counts two different objects with one uid.
pub fn uid_collision() {
    counter(&names::UID_COLLISIONS, []).increment(1);
}

/// Why an owner reference is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidReference {
    /// The owner is in another namespace.
    NamespaceMismatch,
    /// A cluster-scoped object names a namespaced kind of owner.
    InvalidScope,
}

impl InvalidReference {
    pub(in crate::telemetry) const ALL: [Self; 2] = [Self::NamespaceMismatch, Self::InvalidScope];

    pub(in crate::telemetry) const fn label(self) -> &'static str {
        match self {
            Self::NamespaceMismatch => "namespace_mismatch",
            Self::InvalidScope => "invalid_scope",
        }
    }
}

/// Counts an invalid owner reference.
pub fn invalid_reference(reason: InvalidReference) {
    counter(&names::INVALID_REFERENCES, [Value::Static(reason.label())]).increment(1);
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    let _ = EventLag::new();
    for reason in InvalidReference::ALL {
        counter(&names::INVALID_REFERENCES, [Value::Static(reason.label())]).increment(0);
    }
    for metric in [&names::UID_COLLISIONS, &names::STORE_RESTORED] {
        counter(metric, []).increment(0);
    }
}
