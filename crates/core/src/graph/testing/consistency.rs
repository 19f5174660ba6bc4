//! Checks that a partition, its nodes and its edges are consistent.

use std::collections::HashSet;

use super::*;
use crate::graph::Partition;

impl Store {
    /// Panics unless everything is consistent.
    pub(in crate::graph) fn check(&self) {
        self.nodes.check();
        self.edges.check();
        self.types.check();
        assert_eq!(self.index.len(), self.nodes.len());
        let mut seen = 0;
        for (id, node) in self.nodes.iter() {
            assert_eq!(self.find(&node.uid, node.target), Some(id), "{node:?} is not found by its key");
            if let Target::Served(type_id) = node.target {
                assert_eq!(self.types.entries[type_id].nodes.get(node.position as usize), Some(&id));
            }
            let mut previous = None;
            for edge in self.dependents(id) {
                assert_eq!(self.edges[edge].owner, id);
                assert_eq!(self.edges[edge].previous_dependent, previous);
                previous = Some(edge);
            }
            for edge in self.owners(id) {
                assert_eq!(self.edges[edge].dependent, id);
                let owner = self.edges[edge].owner;
                assert!(
                    self.dependents(owner).any(|other| other == edge),
                    "an edge that its owner does not list"
                );
                assert_eq!(self.edges[edge].own_name, self.own_names.contains_key(&edge));
                seen += 1;
            }
            let touched = node.first_owner.is_some() || node.first_dependent.is_some();
            assert!(touched || node.is_observed(), "a stub without edges was kept: {node:?}");
            assert_eq!(node.presence == Presence::Unresolved, self.resource_of(id).is_none());
        }
        assert_eq!(seen, self.edges.len(), "edges that are no dependent's");
        for (_, entry) in self.types.entries.iter() {
            let observed = entry.nodes.iter().filter(|&&id| self.nodes[id].is_observed()).count();
            assert_eq!(observed, entry.observed, "miscounted: {:?}", entry.resource.group_resource);
        }
        let virtual_nodes = self.nodes.iter().filter(|(_, node)| node.presence == Presence::Virtual).count();
        assert_eq!(virtual_nodes, self.virtual_nodes);
        let absent = self.nodes.iter().filter(|(_, node)| node.presence == Presence::Absent);
        let absent: HashSet<_> = absent.map(|(id, _)| id).collect();
        assert_eq!(absent, self.absent.iter().copied().collect());
        assert!(self.formerly_absent.iter().all(|&id| self.nodes[id].presence == Presence::Virtual));
        let is_unresolved = |edge: &Edge| self.nodes[edge.owner].presence == Presence::Unresolved;
        let unresolved = self.edges.iter().filter(|(_, edge)| is_unresolved(edge)).count();
        assert_eq!(unresolved, self.unresolved_edges);
        assert_eq!(self.nodes.iter().map(|(_, node)| node.name.len()).sum::<usize>(), self.name_bytes);
        assert!(self.own_names.keys().all(|&edge| self.edges.iter().any(|(id, _)| id == edge)));
        self.namespaces.check(|id| self.nodes.iter().filter(|(_, node)| node.namespace == Some(id)).count());
        self.reference_types
            .check(|id| self.edges.iter().filter(|(_, edge)| edge.reference_type == id).count());
    }
}

impl Partition {
    /// Panics unless everything is consistent.
    pub(in crate::graph) fn check(&self) {
        self.store.check();
        for (&id, progress) in &self.progress {
            assert!(self.store.nodes[id].is_observed());
            assert_eq!(*progress, self.count_progress(id), "miscounted blocking dependents");
        }
        for (id, node) in self.store.nodes.iter() {
            let deleting = node.is_observed() && self.any_view_is(id, DeletionState::DeletingDependents);
            assert_eq!(self.progress.contains_key(&id), deleting, "tracked without need, or not at all");
            assert_eq!(node.role, self.role_of(id), "wrong role");
        }
        self.check_cycles();
        assert!(self.expected.keys().all(|&id| self.store.nodes[id].is_observed()));
    }

    /// Panics unless the cache agrees with a full search.
    fn check_cycles(&self) {
        for id in self.progress.keys().copied() {
            if self.cycles.knows(id) {
                assert_eq!(self.cycles.cyclic.contains(&id), self.reaches_itself(id), "{id:?}");
            }
        }
        let known = self.cycles.acyclic.iter().chain(&self.cycles.cyclic);
        assert!(known.into_iter().all(|id| self.progress.contains_key(id)), "kept for too long");
    }

    fn reaches_itself(&self, start: NodeId) -> bool {
        let mut seen = std::collections::BTreeSet::new();
        let mut open = vec![start];
        while let Some(id) = open.pop() {
            for to in self.successors(id) {
                if self.same_object(to, start) {
                    return true;
                }
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        false
    }
}
