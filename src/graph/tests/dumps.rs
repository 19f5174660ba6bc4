//! The graph as plain data: a naive model of it, and the pages against that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::world::*;
use crate::graph::dump::{DumpEdge, DumpId, Language};
use crate::graph::*;
use crate::object::*;

/// The whole graph put together in memory, which the collector itself never does.
impl Dump {
    /// Puts the dumps of all partitions together.
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

    /// All that is connected with the objects of these uids, in either direction.
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

    /// As text.
    pub fn to_dot(&self) -> String {
        self.written(Language::Dot)
    }

    /// As JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::from_str(&self.written(Language::Json)).unwrap()
    }
}

impl Partition {
    /// Dumps every node that has an edge, and the nodes of these uids even if
    /// they have none.
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

/// A partition of so many objects, each the owner of the next one.
fn chain(objects: u32) -> Partition {
    let layout = Layout::new(std::num::NonZeroU16::MIN, crate::object::HashSeed::new(1));
    let mut partition = Partition::new(PartitionId(1), layout, Arc::clone(catalog()));
    let mut changes = vec![Change::ListBegan { resource_version: None }];
    let mut last: Option<Obj> = None;
    for number in 0..objects {
        let mut next = config(&format!("c{number}"));
        if let Some(last) = &last {
            next = next.owned(last);
        }
        changes.push(Change::Seen(next.facts.clone()));
        last = Some(next);
    }
    changes.push(Change::ListEnded { resource_version: ResourceVersion::parse("20") });
    let (resource, epoch) = (resource("configmaps"), Epoch(1));
    let deletes_prove = DeletesProve::Absence;
    let mut out = Effects::default();
    let started = Intake::MonitorStarted { resource: Arc::clone(&resource), epoch, deletes_prove };
    partition.intake(started, &mut out);
    partition.intake(Intake::Changes { resource, epoch, changes }, &mut out);
    partition
}

#[test]
fn of_a_large_graph_no_page_is_larger_than_what_was_asked_for() {
    const OBJECTS: u32 = 20_000;
    const PLACES: usize = 1000;
    let partition = chain(OBJECTS);
    let (mut nodes, mut edges, mut pages) = (BTreeSet::new(), 0, 0);
    let mut after = None;
    loop {
        let page = partition.page_of_nodes(after, PLACES);
        assert!(page.nodes.len() <= PLACES);
        pages += 1;
        nodes.extend(page.nodes.into_iter().map(|(id, _)| id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((nodes.len(), pages), (20_000, 20));
    loop {
        let page = partition.page_of_edges(after, PLACES);
        assert!(page.edges.len() <= PLACES);
        edges += page.edges.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(edges, 19_999);
}

#[test]
fn pages_go_on_where_they_ended_while_objects_come_and_go() {
    let mut w = World::new(1);
    let owner = config("owner");
    let pods: Vec<Obj> = (0..9).map(|n| pod(&format!("p{n}")).owned(&owner)).collect();
    w.see(&[&owner]);
    w.see(&pods.iter().collect::<Vec<_>>());
    let (mut seen, mut after) = (Vec::new(), None);
    for gone in 0.. {
        let page = w.partition("ns").page_of_edges(after, 2);
        seen.extend(page.edges.into_iter().map(|edge| edge.child.uid.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
        if gone == 0 {
            w.delete(&pods[0]);
            w.delete(&pods[8]);
        }
    }
    assert_eq!(seen, ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"].map(str::to_owned)[..seen.len()]);
    assert!(seen.len() >= 8, "{seen:?}");
}
