//! Questions to a partition of the graph for metrics and debug pages.

use std::sync::Arc;

use actix::{Message, MessageResponse};

use kube_gc_core::graph::dump::{DumpId, DumpNode, EdgePage, Neighborhood, NodePage};
use kube_gc_core::graph::{Cursor, PartitionId, Stats, StuckFilter, StuckObjects};
use kube_gc_core::object::{GroupResource, Identity, Key, Uid};

/// Sizes and pending messages.
#[derive(Debug, Message)]
#[rtype(result = "PartitionStatus")]
pub struct AskStatus;

/// The answer to [`AskStatus`].
#[derive(Clone, Copy, Debug, MessageResponse)]
pub struct PartitionStatus {
    /// Sizes.
    pub stats: Stats,
    /// Messages to other partitions that are not applied yet.
    pub outbox: usize,
}

/// How many objects of this type are there?
#[derive(Debug, Message)]
#[rtype(result = "usize")]
pub struct AskPopulation(pub GroupResource);

/// A page of the nodes that have an edge, of so many places at most.
#[derive(Debug, Message)]
#[rtype(result = "NodePage")]
pub struct AskNodes {
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// How many places to look at.
    pub places: usize,
}

/// A page of the edges, of so many places at most.
#[derive(Debug, Message)]
#[rtype(result = "EdgePage")]
pub struct AskEdges {
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// How many places to look at.
    pub places: usize,
}

/// Which of these nodes do you show better than I?
#[derive(Debug, Message)]
#[rtype(result = "Vec<bool>")]
pub struct AskBetter {
    /// I.
    pub asker: PartitionId,
    /// What I show.
    pub shown: Arc<Vec<(DumpId, DumpNode)>>,
}

/// The nodes that have one of these uids.
#[derive(Debug, Message)]
#[rtype(result = "Vec<(DumpId, DumpNode)>")]
pub struct AskNodesOf(pub Vec<Uid>);

/// These nodes and their edges.
#[derive(Debug, Message)]
#[rtype(result = "Neighborhood")]
pub struct AskAround(pub Arc<Vec<DumpId>>);

/// What cannot be finished and is in no queue?
#[derive(Debug, Message)]
#[rtype(result = "StuckObjects")]
pub struct AskWaiting(pub StuckFilter);

/// Which objects are these keys?
#[derive(Debug, Message)]
#[rtype(result = "Vec<Option<Identity>>")]
pub struct IdentifyAll(pub Vec<Key>);
