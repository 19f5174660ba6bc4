//! The progress of foreground deletions, counted incrementally, and cycles of those that wait for
//! each other.
//!
//! A node that is deleting dependents is queued when its last blocking dependent goes, and when
//! the last of them starts deleting dependents itself (a possible cycle). Queueing it for each
//! of n dependents would make a cascade cost n² evaluations.
//!
//! The nodes of the graph in which cycles are searched are the objects that are deleting dependents.
//! Each has an arc to those that block it. A search per query would take n² steps for a chain of n, so
//! the results of a search are cached for every node that it visits:
//!
//! - A search visits everything that is reachable and not cached, and finds the strongly connected
//!   components. A node in a component of its own is acyclic.
//! - A new arc closes a cycle only if its target can reach itself. That is searched in both
//!   directions at once and is decided when either search ends. One of them ends immediately
//!   when a cascade goes down a chain, and also when a tenant deletes a chain from its end
//!   upwards.
//! - Cyclic nodes are cached until anything about one of them changes.

use smallvec::SmallVec;

use super::node::{Edge, EdgeId, NodeId, Role};
use super::{Effects, Partition};
use crate::circles::components;
use crate::mutation::{self, Mutation};
use crate::object::{Keyed, KeyedMap, KeyedSet};

/// The references that block a node which is deleting dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) blocking: u32,
    /// How many of the blocking dependents are not deleting dependents themselves.
    pub(super) active: u32,
}

/// The cached results of searches for cycles, for nodes whose progress is counted.
#[derive(Clone, Debug)]
pub(super) struct Cycles {
    pub(super) acyclic: KeyedSet<NodeId>,
    pub(super) cyclic: KeyedSet<NodeId>,
}

impl Cycles {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { acyclic: KeyedSet::with_hasher(hasher), cyclic: KeyedSet::with_hasher(hasher) }
    }

    /// A node changes.
    pub(super) fn changes(&mut self, id: NodeId) {
        if self.cyclic.contains(&id) {
            self.cyclic.clear();
        }
    }

    /// A node is no longer deleting dependents.
    pub(super) fn leaves(&mut self, id: NodeId) {
        self.changes(id);
        self.acyclic.remove(&id);
    }

    pub(super) fn forget(&mut self) {
        self.acyclic.clear();
        self.cyclic.clear();
    }

    pub(super) fn knows(&self, id: NodeId) -> bool {
        self.acyclic.contains(&id) || self.cyclic.contains(&id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.acyclic.is_empty() && self.cyclic.is_empty()
    }
}

/// Owners whose counters a change to a dependent may affect, each first with its counters before it.
pub(super) type Touched = SmallVec<[(NodeId, Progress); 2]>;

impl Partition {
    /// Whether an edge makes its object a dependent. Three kinds do not:
    ///
    /// - those of an alias: the object counts through its primary;
    /// - those of an object to itself;
    /// - those across namespaces, which are invalid. Which namespaces share a partition is
    ///   arbitrary, and one namespace must not be able to block a deletion in another.
    pub(super) fn counts_as_dependent(&self, edge: EdgeId) -> bool {
        let Edge { dependent, owner, .. } = self.store.edges[edge];
        !self.is_alias(dependent)
            && !self.same_object(dependent, owner)
            && self.store.same_namespace(edge, owner)
    }

    /// Whether an edge blocks its owner's foreground deletion.
    pub(super) fn blocks(&self, edge: EdgeId) -> bool {
        self.store.edges[edge].blocking && self.counts_as_dependent(edge)
    }

    pub(super) fn count_progress(&self, owner: NodeId) -> Progress {
        let mut progress = Progress::default();
        for edge in self.store.dependents(owner).filter(|&edge| self.blocks(edge)) {
            progress.blocking += 1;
            progress.active += u32::from(!self.dependent_deletes_dependents(edge));
        }
        progress
    }

    /// Recounts what blocks an object if any of its views is deleting dependents, and drops its
    /// counters otherwise.
    pub(super) fn recount(&mut self, owner: NodeId) {
        let group = self.group(owner);
        let deleting = group.iter().any(|&member| self.store.nodes[member].is_deleting_dependents());
        for member in group {
            if deleting {
                let progress = self.count_progress(member);
                self.progress.insert(member, progress);
                self.may_close_cycle(member);
            } else {
                self.progress.remove(&member);
                self.cycles.leaves(member);
            }
        }
    }

    /// Subtracts a dependent from its owners' counters, before it changes.
    pub(super) fn subtract_from_owners(&mut self, dependent: NodeId) -> Touched {
        let mut touched = Touched::new();
        if !self.progress.is_empty() {
            self.cycles.changes(dependent);
            self.adjust(dependent, &mut touched, |count, by| *count -= by);
        }
        touched
    }

    /// Adds a dependent back after the change, and queues the owners that were waiting for it.
    pub(super) fn add_to_owners(&mut self, dependent: NodeId, mut touched: Touched, out: &mut Effects) {
        if !self.progress.is_empty() {
            self.adjust(dependent, &mut touched, |count, by| *count += by);
            self.may_close_cycle(dependent);
        }
        self.wake(touched, out);
    }

    /// Queues the owners that nothing blocks any more, or only objects that are deleting dependents.
    pub(super) fn wake(&self, mut touched: Touched, out: &mut Effects) {
        // The sort is stable: the first entry of each owner has its counters before the change.
        touched.sort_by_key(|&(owner, _)| owner);
        touched.dedup_by_key(|&mut (owner, _)| owner);
        for (owner, before) in touched {
            let Some(&now) = self.progress.get(&owner) else { continue };
            let unblocked =
                before.blocking > 0 && now.blocking == 0 && !mutation::is(Mutation::DropUnblockWakeUp);
            let all_deleting = before.active > 0 && now.active == 0;
            if unblocked || all_deleting {
                self.queue(owner, out);
            }
        }
    }

    fn adjust(&mut self, dependent: NodeId, touched: &mut Touched, apply: impl Fn(&mut u32, u32)) {
        let blocking: SmallVec<[EdgeId; 4]> = self
            .store
            .owners(dependent)
            .filter(|&edge| self.progress.contains_key(&self.store.edges[edge].owner) && self.blocks(edge))
            .collect();
        for edge in blocking {
            let active = u32::from(!self.dependent_deletes_dependents(edge));
            let owner = self.store.edges[edge].owner;
            let Some(progress) = self.progress.get_mut(&owner) else { continue };
            touched.push((owner, *progress));
            apply(&mut progress.blocking, 1);
            apply(&mut progress.active, active);
        }
    }
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
    pub(super) fn successors(&self, id: NodeId) -> Vec<NodeId> {
        self.counted_dependents(id)
            .filter(|&edge| self.store.edges[edge].blocking && self.dependent_deletes_dependents(edge))
            .map(|edge| self.store.edges[edge].dependent)
            .collect()
    }

    fn search(&mut self, start: NodeId) {
        let mut places = KeyedMap::with_hasher(self.store.hasher);
        places.insert(start, 0);
        let (mut nodes, mut arcs) = (vec![start], Vec::new());
        while let Some(&from) = nodes.get(arcs.len()) {
            // Everything reachable from a node that is cached is cached, and does not lead back here.
            let successors = self.successors(from).into_iter().filter(|&to| !self.cycles.knows(to));
            let places = successors.map(|to| {
                *places.entry(to).or_insert_with(|| {
                    nodes.push(to);
                    nodes.len() - 1
                })
            });
            arcs.push(places.collect());
        }
        for component in components(&arcs) {
            let component: Vec<NodeId> = component.into_iter().map(|place| nodes[place]).collect();
            self.record_component(&component);
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
        let set = || KeyedSet::with_hasher(self.store.hasher);
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
