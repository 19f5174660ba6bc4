//! The entry points of a partition, and the state that its rules share.

use std::collections::HashSet;
use std::sync::Arc;

use crate::object::{
    Catalog, DeletionState, Disturbance, GroupResource, Key, KeyedMap, Namespace, ResourceType,
    ResourceVersion,
};

use super::foreground::{Cycles, Progress};
use super::node::{Listing, MonitorState, NodeId, Presence};
use super::store::Store;
use super::stuck::Noticed;
use super::{DeletesProve, Effects, Epoch, PartitionId, Sharding, WatchEvent};

/// One part of the graph of owners and dependents.
///
/// Input arrives through [`apply_events`](Self::apply_events) and [`receive`](Self::receive), and
/// output leaves as [`Effects`]. Workers take a [`Snapshot`](super::Snapshot) at the moment when they
/// decide. The same calls in the same order always have the same effects in the same order.
#[derive(Clone, Debug)]
pub struct Partition {
    pub(super) id: PartitionId,
    pub(super) sharding: Sharding,
    pub(super) catalog: Arc<Catalog>,
    pub(super) store: Store,
    /// The counters of the observed nodes that are deleting dependents. They are few.
    pub(super) progress: KeyedMap<NodeId, Progress>,
    /// Which of them are in cycles, as far as queries found out.
    pub(super) cycles: Cycles,
    /// Our own writes whose events have not arrived.
    pub(super) expected: KeyedMap<NodeId, Expectation>,
    /// Nodes that were being deleted or had a reference of invalid scope at the last query, or have
    /// become so since, with the seconds of grace that they were deleted with, and when these end.
    pub(super) may_be_stuck: KeyedMap<NodeId, (Option<u32>, Option<u64>)>,
    /// The nodes that were stuck at the last query.
    pub(super) noticed: KeyedMap<NodeId, Noticed>,
    /// The latest break of the watches.
    pub(super) disturbance: Disturbance,
}

/// One of our own writes whose event has not arrived.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    change: ExpectedChange,
    /// Whether a worker wanted to evaluate the node in the meantime. Then it is queued again when
    /// the event arrives.
    pub(super) asked: bool,
}

/// What the event of a successful write will show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedChange {
    /// The object is gone.
    Removed,
    /// The object has this version.
    Version(ResourceVersion),
}

/// The size of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All nodes, stubs included.
    pub nodes: usize,
    /// Owners that are neither observed nor proved absent.
    pub virtual_nodes: usize,
    pub edges: usize,
    /// Owner references whose kind does not resolve.
    pub unresolved: usize,
    /// The approximate memory in use.
    pub bytes: usize,
    /// Writes whose events have not arrived, for the idle probe.
    pub unseen_writes: usize,
}

impl Partition {
    pub fn new(id: PartitionId, sharding: Sharding, catalog: Arc<Catalog>) -> Self {
        let hasher = sharding.hasher();
        Self {
            id,
            sharding,
            catalog,
            store: Store::new(hasher),
            progress: KeyedMap::with_hasher(hasher),
            cycles: Cycles::new(hasher),
            expected: KeyedMap::with_hasher(hasher),
            may_be_stuck: KeyedMap::with_hasher(hasher),
            noticed: KeyedMap::with_hasher(hasher),
            disturbance: Disturbance::default(),
        }
    }

    pub const fn id(&self) -> PartitionId {
        self.id
    }

    /// The types that the API server serves, as this partition knows them.
    pub const fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// A monitor begins. From now on, events of other epochs for this type are discarded. Events of
    /// a type that has no monitor always are.
    pub fn monitor_started(
        &mut self,
        resource: &Arc<ResourceType>,
        epoch: Epoch,
        deletes_prove: DeletesProve,
    ) {
        let id = self.store.types.find_or_insert(resource);
        let entry = &mut self.store.types.entries[id];
        if entry.monitor.as_ref().is_some_and(|monitor| monitor.epoch >= epoch) {
            return;
        }
        entry.resource = Arc::clone(resource);
        entry.unserved = false;
        // Versions of different servers cannot be compared.
        let before = entry.versions_of.replace(deletes_prove);
        let is_foreign = before.is_some_and(|before| before != deletes_prove);
        entry.monitor =
            Some(MonitorState { epoch, deletes_prove, synced: false, listing: Listing::None, is_foreign });
    }

    /// Applies events of a monitor, in the order in which the API server sent them. Returns false if
    /// the monitor no longer runs, and the events are discarded.
    pub fn apply_events(
        &mut self,
        resource: &ResourceType,
        epoch: Epoch,
        events: &[WatchEvent],
        out: &mut Effects,
    ) -> bool {
        let Some(type_id) = self.store.types.find(&resource.group_resource) else { return false };
        let monitor = self.store.types.entries[type_id].monitor.as_ref();
        let Some(&MonitorState { deletes_prove, .. }) = monitor.filter(|monitor| monitor.epoch == epoch)
        else {
            return false;
        };
        for event in events {
            match event {
                WatchEvent::Init { resource_version } => {
                    self.list_began(type_id, resource_version.is_some());
                }
                WatchEvent::Apply(facts) => self.apply(type_id, facts, out),
                WatchEvent::Delete(facts) => self.deleted(type_id, facts, deletes_prove, out),
                WatchEvent::InitDone { resource_version } => {
                    self.list_ended(type_id, resource_version.as_ref(), deletes_prove, out);
                }
            }
        }
        true
    }

    /// Whether a monitor of this type runs and has completed a list. Until then an observed node
    /// of the type does not prove that its object exists.
    pub fn is_synced(&self, group_resource: &GroupResource) -> bool {
        let types = &self.store.types;
        types.find(group_resource).is_some_and(|id| types.entries[id].is_synced())
    }

    /// Forgets everything, because the store was restored from a backup: versions went back and
    /// uids may return. The caller restarts the monitors.
    pub fn reset(&mut self) {
        let mut empty = Self::new(self.id, self.sharding, Arc::clone(&self.catalog));
        empty.disturbance = std::mem::take(&mut self.disturbance);
        *self = empty;
    }

    /// Records that a worker's write succeeded and that its event is awaited, unless the node is
    /// already as the write left it, or gone.
    ///
    /// Until the event arrives the node is not evaluated: it is certainly outdated, and the API
    /// server would only reject a second DELETE or patch.
    pub fn expect_event(&mut self, key: &Key, change: &ExpectedChange) {
        // Without a monitor, no event would arrive.
        let is_shown = |&id: &NodeId| self.store.nodes[id].is_observed() && self.store.is_monitored(id);
        let Some(id) = self.store.find_key(key).filter(is_shown) else { return };
        let shows = match change {
            ExpectedChange::Removed => false,
            ExpectedChange::Version(version) => self.store.version(id).is_some_and(|seen| seen >= version),
        };
        if shows {
            return;
        }
        // An object that is served twice is gone from all its views, but each watch reports that
        // separately. The view that becomes primary must not be deleted a second time. (Versions
        // of different views need not be comparable.)
        let views = if *change == ExpectedChange::Removed { self.group(id) } else { smallvec::smallvec![id] };
        for view in views {
            // Work that awaits the event of an earlier write awaits this one.
            let asked = self.expected.get(&view).is_some_and(|earlier| earlier.asked);
            self.expected.insert(view, Expectation { change: change.clone(), asked });
        }
    }

    /// Called for every event that gives a node another version.
    pub(super) fn note_event(&mut self, id: NodeId, out: &mut Effects) {
        let Some(expectation) = self.expected.get(&id) else { return };
        let pending = match (&expectation.change, self.store.version(id)) {
            // If versions cannot be compared, any event counts.
            (ExpectedChange::Version(version), Some(seen)) => {
                version.is_after(seen) && self.store.versions_order(id)
            }
            _ => false,
        };
        if !pending && self.expected.remove(&id).is_some_and(|expectation| expectation.asked) {
            self.queue(id, out);
        }
    }

    /// Whether the event of our own write to a node is awaited. If so, the node is queued again
    /// when the event arrives.
    pub(super) fn awaits_event(&mut self, id: NodeId) -> bool {
        self.expected.get_mut(&id).map(|expectation| expectation.asked = true).is_some()
    }

    pub fn stats(&self) -> Stats {
        Stats {
            nodes: self.store.nodes.len(),
            virtual_nodes: self.store.virtual_nodes,
            edges: self.store.edges.len(),
            unresolved: self.store.unresolved_edges,
            bytes: self.store.bytes(),
            unseen_writes: self.expected.len(),
        }
    }

    /// The number of own writes to objects of these namespaces, or without one, whose events have not
    /// arrived.
    pub fn unseen_writes_in(&self, namespaces: &HashSet<Option<Namespace>>) -> usize {
        let is_in = |id: &&NodeId| namespaces.contains(&self.store.key(**id).namespace);
        self.expected.keys().filter(is_in).count()
    }

    /// The number of objects of a type in this partition.
    pub fn population(&self, group_resource: &GroupResource) -> usize {
        let types = &self.store.types;
        types.find(group_resource).map_or(0, |id| types.entries[id].observed)
    }

    /// Queues a node's primary for the delete pool.
    pub(super) fn queue(&self, id: NodeId, out: &mut Effects) {
        let id = self.primary(id);
        // An object that names thousands of owners is queued for each, one after another.
        let is_last = |last: &Key| last.uid == self.store.nodes[id].uid && *last == self.store.key(id);
        if !out.delete.last().is_some_and(is_last) {
            out.delete.push(self.store.key(id));
        }
    }

    /// Queues a node's primary for the orphan pool.
    pub(super) fn queue_orphaning(&self, id: NodeId, out: &mut Effects) {
        out.orphan.push(self.store.key(self.primary(id)));
    }

    /// Queues every dependent of a node.
    pub(super) fn queue_dependents(&self, id: NodeId, out: &mut Effects) {
        for edge in self.store.dependents(id) {
            self.queue(self.store.edges[edge].dependent, out);
        }
    }

    /// Queues every dependent of a node that is gone or is deleting dependents.
    pub(super) fn queue_cascade(&self, id: NodeId, out: &mut Effects) {
        let start = out.delete.len();
        self.queue_dependents(id, out);
        out.cascade_from(start);
    }

    /// Queues the dependents of a node that are not being deleted.
    pub(super) fn queue_live_dependents(&self, id: NodeId, out: &mut Effects) {
        for edge in self.store.dependents(id) {
            let dependent = self.store.edges[edge].dependent;
            if !self.store.nodes[dependent].deletion.is_being_deleted() {
                self.queue(dependent, out);
            }
        }
    }

    /// Frees a stub that no edge needs any more.
    pub(super) fn collect(&mut self, id: NodeId) {
        let node = &self.store.nodes[id];
        match (node.presence, node.first_owner, node.first_dependent) {
            (Presence::Observed, ..) => {}
            (_, None, None) => self.store.free(id),
            (Presence::Linked, None, Some(_)) => {
                // Without links, these are not kept up to date.
                self.store.set_presence(id, Presence::InvalidScope);
                let node = &mut self.store.nodes[id];
                node.deletion = DeletionState::Live;
                node.shares_uid = false;
            }
            _ => {}
        }
    }
}

#[cfg(any(test, feature = "test-util"))]
impl Expectation {
    pub(super) const fn version(&self) -> Option<&ResourceVersion> {
        match &self.change {
            ExpectedChange::Removed => None,
            ExpectedChange::Version(version) => Some(version),
        }
    }
}
