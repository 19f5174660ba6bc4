//! Questions to a partition of the graph for metrics and debug pages.

use std::sync::Arc;

use actix::{Message, MessageResponse};

use kube_gc_core::graph::dump::{DumpId, DumpNode, EdgePage, Neighborhood, NodePage};
use kube_gc_core::graph::{Cursor, PartitionId, Stats, StuckFilter, StuckObjects};
use kube_gc_core::object::{GroupResource, Identity, Key, Uid};

/// Asks for sizes and pending messages.
#[derive(Debug, Message)]
#[rtype(result = "PartitionStatus")]
pub struct AskStatus;

/// The answer to [`AskStatus`].
#[derive(Clone, Copy, Debug, MessageResponse)]
pub struct PartitionStatus {
    /// Sizes.
    pub stats: Stats,
    /// Links to other partitions that are not applied yet.
    pub outbox: usize,
}

/// Asks for the number of objects of a type.
#[derive(Debug, Message)]
#[rtype(result = "usize")]
pub struct AskPopulation(pub GroupResource);

/// Asks for a page of the nodes that have an edge.
#[derive(Debug, Message)]
#[rtype(result = "NodePage")]
pub struct AskNodes {
    /// The end of the page before.
    pub after: Option<Cursor>,
    /// How many slots to scan.
    pub slots: usize,
}

/// Asks for a page of the edges.
#[derive(Debug, Message)]
#[rtype(result = "EdgePage")]
pub struct AskEdges {
    /// The end of the page before.
    pub after: Option<Cursor>,
    /// How many slots to scan.
    pub slots: usize,
}

/// Asks which of the asker's nodes this partition knows better.
#[derive(Debug, Message)]
#[rtype(result = "Vec<bool>")]
pub struct AskBetter {
    /// The partition that asks.
    pub asker: PartitionId,
    /// Its nodes.
    pub shown: Arc<Vec<(DumpId, DumpNode)>>,
}

/// Asks for the nodes with these uids.
#[derive(Debug, Message)]
#[rtype(result = "Vec<(DumpId, DumpNode)>")]
pub struct AskNodesOf(pub Vec<Uid>);

/// Asks for these nodes and their edges.
#[derive(Debug, Message)]
#[rtype(result = "Neighborhood")]
pub struct AskAround(pub Arc<Vec<DumpId>>);

/// Asks for stuck objects that are in no queue.
#[derive(Debug, Message)]
#[rtype(result = "StuckObjects")]
pub struct AskWaiting(pub StuckFilter);

/// Asks for the identities of keys.
#[derive(Debug, Message)]
#[rtype(result = "Vec<Option<Identity>>")]
pub struct IdentifyAll(pub Vec<Key>);
