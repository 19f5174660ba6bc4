//! The whole graph in memory, as a naive model of the pages. The collector itself never assembles it.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::dump::{DumpEdge, DumpId};
use crate::graph::{Dump, Partition};
use crate::object::Uid;

impl Dump {
    /// Merges the dumps of all partitions.
    pub fn merge(dumps: impl IntoIterator<Item = Self>) -> Self {
        let mut merged = Self::default();
        for dump in dumps {
            for (id, node) in dump.nodes {
                match merged.nodes.get(&id) {
                    Some(known) if *known <= node => {}
                    _ => {
                        merged.nodes.insert(id, node);
                    }
                }
            }
            merged.edges.extend(dump.edges);
        }
        merged
    }

    /// Everything that is connected with the objects of these uids, in either direction.
    pub fn component(&self, uids: &[Uid]) -> Self {
        let mut neighbours: BTreeMap<&DumpId, Vec<&DumpId>> = BTreeMap::new();
        for DumpEdge { child, owner, .. } in &self.edges {
            neighbours.entry(child).or_default().push(owner);
            neighbours.entry(owner).or_default().push(child);
        }
        let mut open: Vec<&DumpId> = self.nodes.keys().filter(|id| uids.contains(&id.uid)).collect();
        let mut reached: BTreeSet<&DumpId> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            for &next in neighbours.get(id).into_iter().flatten() {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        Self {
            nodes: self
                .nodes
                .iter()
                .filter(|(id, _)| reached.contains(id))
                .map(|(id, node)| (id.clone(), node.clone()))
                .collect(),
            edges: self.edges.iter().filter(|edge| reached.contains(&edge.child)).cloned().collect(),
        }
    }
}

impl Partition {
    /// Dumps every node that has an edge, and the nodes of these uids in any case.
    pub fn dump(&self, roots: Option<&[Uid]>) -> Dump {
        let mut dump = Dump::default();
        for (id, node) in self.store.nodes.iter() {
            if self.is_connected(id) || roots.is_some_and(|roots| roots.contains(&node.uid)) {
                dump.nodes.insert(self.dump_id(id), self.dump_node(id));
            }
        }
        for (_, edge) in self.store.edges.iter() {
            dump.edges.insert(self.dump_edge(edge));
        }
        dump
    }
}
