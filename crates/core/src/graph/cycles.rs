//! Cycles of foreground deletions that wait for each other.
//!
//! The nodes of the searched graph are the objects that are deleting dependents. Each has an
//! arc to those that block it. A search per query would take n² steps for a chain of n, so the
//! results of a search are cached for every node that it visits:
//!
//! - A search visits everything that is reachable and not cached (Tarjan's strongly connected
//!   components). A node in a component of its own is acyclic.
//! - A new arc closes a cycle only if its target can reach itself. That is searched in both
//!   directions at once and is decided when either search ends. One of them ends immediately
//!   when a cascade goes down a chain, and also when a tenant deletes a chain from its end
//!   upwards.
//! - Cyclic nodes are cached until anything about one of them changes.

use hashbrown::hash_map::Entry;

use super::Partition;
use super::keyed::{KeyedMap, KeyedSet};
use super::node::{NodeId, Role};

/// A node that a search has reached.
struct Reached {
    /// The order in which the search reached it.
    number: usize,
    /// The least number that is known to be reachable from it.
    lowest: usize,
    /// Whether its component is incomplete.
    open: bool,
}

/// A node on the search path, with the successors that are still to be visited.
struct Step {
    node: NodeId,
    ahead: Vec<NodeId>,
}

impl Partition {
    /// Whether a node is in a cycle of blocking references between nodes that are all deleting
    /// dependents.
    pub(super) fn is_in_cycle(&mut self, start: NodeId) -> bool {
        if !self.cycles.knows(start) {
            self.search(start);
        }
        self.cycles.cyclic.contains(&start)
    }

    /// The objects that block a node and are deleting dependents themselves.
    fn successors(&self, id: NodeId) -> Vec<NodeId> {
        self.counted_dependents(id)
            .filter(|&edge| self.store.edges[edge].blocking && self.dependent_deletes_dependents(edge))
            .map(|edge| self.store.edges[edge].dependent)
            .collect()
    }

    fn search(&mut self, start: NodeId) {
        let mut reached: KeyedMap<NodeId, Reached> = KeyedMap::with_hasher(self.store.node_hasher);
        let mut open: Vec<NodeId> = Vec::new();
        let mut path: Vec<Step> = Vec::new();
        let mut next = Some(start);
        loop {
            if let Some(node) = next.take() {
                let number = reached.len();
                reached.insert(node, Reached { number, lowest: number, open: true });
                open.push(node);
                path.push(Step { node, ahead: self.successors(node) });
            }
            let Some(Step { node, ahead }) = path.last_mut() else { return };
            let node = *node;
            if let Some(to) = ahead.pop() {
                if self.cycles.knows(to) {
                    // Everything reachable from it is cached and does not lead back here.
                    continue;
                }
                match reached.entry(to) {
                    Entry::Vacant(_) => next = Some(to),
                    Entry::Occupied(there) if there.get().open => {
                        let number = there.get().number;
                        lower(&mut reached, node, number);
                    }
                    Entry::Occupied(_) => {}
                }
                continue;
            }
            path.pop();
            let Some(&Reached { number, lowest, .. }) = reached.get(&node) else { return };
            if let Some(before) = path.last() {
                lower(&mut reached, before.node, lowest);
            }
            if lowest == number {
                let first = open.iter().rposition(|&other| other == node).unwrap_or_default();
                let component = open.split_off(first);
                self.record_component(&component);
                for member in component {
                    if let Some(member) = reached.get_mut(&member) {
                        member.open = false;
                    }
                }
            }
        }
    }

    fn record_component(&mut self, component: &[NodeId]) {
        // A linked node of another partition has no counters here, and no successors.
        let counted = component.iter().filter(|id| self.progress.contains_key(*id));
        if component.len() > 1 {
            self.cycles.cyclic.extend(counted);
        } else {
            self.cycles.acyclic.extend(counted);
        }
    }

    /// Arcs to or from a node may have been added.
    pub(super) fn may_close_cycle(&mut self, id: NodeId) {
        if self.cycles.is_empty() {
            return;
        }
        let Some(progress) = self.progress.get(&id) else { return };
        let leads_on = progress.blocking > progress.active || self.store.nodes[id].role != Role::Single;
        if leads_on && self.may_reach_itself(id) {
            self.cycles.forget();
        }
    }

    /// Searches in both directions. Answers yes for an object that is served twice, without a
    /// search.
    fn may_reach_itself(&self, id: NodeId) -> bool {
        let set = || KeyedSet::with_hasher(self.store.node_hasher);
        let (mut forward, mut backward) = (vec![id], vec![id]);
        let (mut seen_forward, mut seen_backward) = (set(), set());
        loop {
            // Backwards first: an object has few owners, and may have many dependents.
            let Some(node) = backward.pop() else { return false };
            if self.store.nodes[node].role != Role::Single {
                return true;
            }
            for edge in self.store.owners(node).filter(|&edge| self.blocks(edge)) {
                let from = self.store.edges[edge].owner;
                if from == id {
                    return true;
                }
                if self.progress.contains_key(&from) && seen_backward.insert(from) {
                    backward.push(from);
                }
            }
            let Some(node) = forward.pop() else { return false };
            for to in self.successors(node) {
                if to == id {
                    return true;
                }
                if seen_forward.insert(to) {
                    forward.push(to);
                }
            }
        }
    }
}

fn lower(reached: &mut KeyedMap<NodeId, Reached>, node: NodeId, to: usize) {
    if let Some(node) = reached.get_mut(&node) {
        node.lowest = node.lowest.min(to);
    }
}

#[cfg(any(test, feature = "test-util"))]
impl Partition {
    /// Panics unless the cache agrees with a full search.
    pub(super) fn check_cycles(&self) {
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
