//! Pages of nodes and edges.

use std::collections::BTreeSet;

use crate::graph::node::{NodeId, Presence, Target};
use crate::graph::{Cursor, Partition, PartitionId};
use crate::object::{GroupResource, Uid};

use super::{DumpEdge, DumpId, DumpNode};

/// Some of a partition's nodes.
#[derive(Debug, Default)]
pub struct NodePage {
    /// Nodes that have an edge.
    pub nodes: Vec<(DumpId, DumpNode)>,
    /// Where the next page starts; `None` after the last one.
    pub next: Option<Cursor>,
}

/// Some of a partition's edges.
#[derive(Debug, Default)]
pub struct EdgePage {
    /// The edges, each once.
    pub edges: Vec<DumpEdge>,
    /// Where the next page starts; `None` after the last one.
    pub next: Option<Cursor>,
}

/// Some nodes and what they are connected with.
#[derive(Debug, Default)]
pub struct Neighborhood {
    /// The nodes that have edges in this partition.
    pub nodes: Vec<(DumpId, DumpNode)>,
    /// Their edges in either direction. An edge between two of the nodes occurs twice.
    pub edges: Vec<DumpEdge>,
}

impl Partition {
    /// A page of the nodes that have an edge. Visits at most this many slots, so that the
    /// partition soon returns to its work. An empty page may have successors.
    ///
    /// The pages are not a consistent snapshot: a node that appears or disappears between the
    /// first page and the last may be returned or not.
    #[must_use]
    pub fn page_of_nodes(&self, after: Option<Cursor>, places: usize) -> NodePage {
        let mut page = NodePage::default();
        let start = after.unwrap_or_default();
        for (id, _) in self.store.nodes.iter_from(start.0, places) {
            if self.is_connected(id) {
                page.nodes.push((self.dump_id(id), self.dump_node(id)));
            }
        }
        page.next = self.next_places(start, places);
        page
    }

    /// A page of edges. Visits at most this many slots and ends after the object that brings it
    /// to this many edges. Leaves out linked dependents, which their own partition shows.
    #[must_use]
    pub fn page_of_edges(&self, after: Option<Cursor>, places: usize) -> EdgePage {
        let mut page = EdgePage::default();
        let start = after.unwrap_or_default();
        for (id, node) in self.store.nodes.iter_from(start.0, places) {
            if node.presence == Presence::Linked {
                continue;
            }
            // Two references of one object may look the same in a dump.
            page.edges.extend(self.edges_of(id).collect::<BTreeSet<_>>());
            if page.edges.len() >= places {
                page.next = Some(Cursor(id.number()));
                return page;
            }
        }
        page.next = self.next_places(start, places);
        page
    }

    pub(in crate::graph) fn next_places(&self, start: Cursor, places: usize) -> Option<Cursor> {
        let end = u32::try_from(places).map_or(u32::MAX, |places| start.0.saturating_add(places));
        self.store.nodes.reaches_beyond(end).then_some(Cursor(end))
    }

    fn edges_of(&self, id: NodeId) -> impl Iterator<Item = DumpEdge> {
        self.store.owners(id).map(|edge| self.dump_edge(&self.store.edges[edge]))
    }

    /// For each node that another partition shows, whether this partition has a better source.
    /// Between equal sources the first partition wins.
    #[must_use]
    pub fn shows_better(&self, asker: PartitionId, shown: &[(DumpId, DumpNode)]) -> Vec<bool> {
        let better = |(id, node): &(DumpId, DumpNode)| {
            self.named(id)
                .filter(|&own| self.is_connected(own))
                .any(|own| (&self.dump_node(own), self.id) < (node, asker))
        };
        shown.iter().map(better).collect()
    }

    /// The nodes that have one of these uids.
    #[must_use]
    pub fn nodes_of(&self, uids: &[Uid]) -> Vec<(DumpId, DumpNode)> {
        let found = uids.iter().flat_map(|uid| self.store.with_uid(uid));
        found.map(|id| (self.dump_id(id), self.dump_node(id))).collect()
    }

    /// These nodes, if they have edges here, and their edges.
    #[must_use]
    pub fn neighborhood(&self, ids: &[DumpId]) -> Neighborhood {
        let mut around = Neighborhood::default();
        for id in ids.iter().flat_map(|id| self.named(id)).filter(|&id| self.is_connected(id)) {
            around.nodes.push((self.dump_id(id), self.dump_node(id)));
            around.edges.extend(self.edges_of(id));
            let dependents = self.store.dependents(id);
            around.edges.extend(dependents.map(|edge| self.dump_edge(&self.store.edges[edge])));
        }
        around
    }

    /// The nodes with this id, without a search of all nodes with the uid.
    fn named<'a>(&'a self, DumpId { uid, resource }: &'a DumpId) -> impl Iterator<Item = NodeId> + 'a {
        let types = &self.store.types;
        let served = types.find(&GroupResource::parse(resource)).map(Target::Served);
        let served = served.and_then(|target| self.store.find(uid, target));
        // `apiVersion/kind` has one or two slashes.
        let slashes = resource.match_indices('/').take(2);
        let unresolved = slashes.filter_map(|(slash, _)| {
            let (api_version, kind) = (&resource[..slash], &resource[slash + 1..]);
            self.store.find_unresolved(uid, api_version, kind)
        });
        served.into_iter().chain(unresolved)
    }
}
