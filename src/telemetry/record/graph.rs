//! Recording the graph: its size, and what is wrong with what is in it.

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
    /// References that lead to no type.
    pub unresolved: usize,
    /// Links that have not been applied yet.
    pub outbox: usize,
}

/// How large a partition is now.
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
        gauge(metric, [Value::Shown(&partition)]).set(float(count));
    }
}

/// The API server's store went back in time.
pub fn store_restored() {
    counter(&names::STORE_RESTORED, []).increment(1);
}

/// How long changes are on their way into the graph; looked up once.
#[derive(Clone)]
pub struct EventLag(Histogram);

impl EventLag {
    /// The metric; it is there from now on.
    #[must_use]
    pub fn new() -> Self {
        Self(histogram(&names::EVENT_LAG, []))
    }

    /// So many changes are in the graph this long after they came.
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

/// Two different objects have one uid.
pub fn uid_collision() {
    counter(&names::UID_COLLISIONS, []).increment(1);
}

/// Why a reference can never be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidReference {
    /// The owner lives in another namespace.
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

/// A reference can never be right.
pub fn invalid_reference(reason: InvalidReference) {
    counter(&names::INVALID_REFERENCES, [Value::Static(reason.label())]).increment(1);
}

/// The series of this part, as zeros.
pub(super) fn zeros() {
    let _ = EventLag::new();
    for reason in InvalidReference::ALL {
        counter(&names::INVALID_REFERENCES, [Value::Static(reason.label())]).increment(0);
    }
    for metric in [&names::UID_COLLISIONS, &names::STORE_RESTORED] {
        counter(metric, []).increment(0);
    }
}
