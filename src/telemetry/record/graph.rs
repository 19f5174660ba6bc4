//! Recording the graph: its size, and what is wrong with what is in it.

use super::{Value, counter, float, gauge, names};

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
    /// Links that have not been applied yet.
    pub outbox: usize,
}

/// How large a partition is now.
pub fn graph(partition: usize, size: &GraphSize) {
    let GraphSize { nodes, virtual_nodes, edges, bytes, outbox } = *size;
    for (metric, count) in [
        (&names::GRAPH_NODES, nodes),
        (&names::GRAPH_VIRTUAL_NODES, virtual_nodes),
        (&names::GRAPH_EDGES, edges),
        (&names::GRAPH_BYTES, bytes),
        (&names::GRAPH_OUTBOX, outbox),
    ] {
        gauge(metric, [Value::Shown(&partition)]).set(float(count));
    }
}

/// The API server's store went back in time.
pub fn store_restored() {
    counter(&names::STORE_RESTORED, []).increment(1);
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

/// A reference can never be right.
pub fn invalid_reference(reason: InvalidReference) {
    let reason = match reason {
        InvalidReference::NamespaceMismatch => "namespace_mismatch",
        InvalidReference::InvalidScope => "invalid_scope",
    };
    counter(&names::INVALID_REFERENCES, [Value::Static(reason)]).increment(1);
}

/// The series of this part, as zeros.
pub(super) fn zeros() {
    for metric in [&names::UID_COLLISIONS, &names::STORE_RESTORED] {
        counter(metric, []).increment(0);
    }
}
