//! A partition of the graph: its entry points.

use std::sync::Arc;

use crate::object::{Catalog, DeletionState, Disturbance, GroupResource, Key, ResourceType, ResourceVersion};

use super::cycles::Cycles;
use super::foreground::Progress;
use super::keyed::{KeyedMap, KeyedSet};
use super::node::{NodeId, Presence};
use super::prefetch::AT_ONCE;
use super::store::{MemoryUsage, Store};
use super::stuck::Noticed;
use super::types::{Listing, MonitorState};
use super::{DeletesProve, Effects, Epoch, Intake, PartitionId, PeerMessage, Sharding, WatchEvent};

/// One part of the graph of owners and dependents.
///
/// Pure: what happens comes in through [`intake`](Self::intake) and
/// [`receive`](Self::receive), what is to be done goes out as [`Effects`], and
/// workers ask for a [`Snapshot`](super::Snapshot) at the moment they decide.
/// The same calls in the same order always have the same effects in the same order.
#[derive(Debug)]
pub struct Partition {
    pub(super) id: PartitionId,
    pub(super) sharding: Sharding,
    pub(super) catalog: Arc<Catalog>,
    pub(super) store: Store,
    /// How far each observed node that is deleting dependents is. Only these
    /// need counters, and they are few.
    pub(super) progress: KeyedMap<NodeId, Progress>,
    /// Which of them wait for each other in a circle, as far as anybody has asked.
    pub(super) cycles: Cycles,
    /// Writes whose event has not arrived yet.
    pub(super) expected: KeyedMap<NodeId, Expectation>,
    /// Nodes that had a reference of invalid scope when somebody last looked, or
    /// have got one since.
    pub(super) invalid_scope_candidates: KeyedSet<NodeId>,
    /// What was found waiting when somebody last looked.
    pub(super) noticed: KeyedMap<NodeId, Noticed>,
    /// The latest time that watches broke.
    pub(super) disturbance: Disturbance,
}

/// A write of ours whose event has not arrived yet.
#[derive(Debug)]
pub(super) struct Expectation {
    change: ExpectedChange,
    /// Whether a worker wanted to decide on the node meanwhile: it is queued
    /// again when the event comes.
    pub(super) asked: bool,
}

/// What became of an [`Intake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntakeOutcome {
    /// It is in the graph.
    Applied,
    /// It came from a monitor that does not run any more and was discarded.
    Stale,
}

/// What a successful write will show as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedChange {
    /// The object goes.
    Removed,
    /// The object gets this version.
    Version(ResourceVersion),
}

/// The size of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All nodes, also the virtual ones and other stubs.
    pub nodes: usize,
    /// Owners that are named and neither observed nor proved absent.
    pub virtual_nodes: usize,
    /// Owner references.
    pub edges: usize,
    /// Those of them whose kind leads to no type that is served.
    pub unresolved: usize,
    /// The memory taken up, nearly.
    pub bytes: usize,
    /// Nodes that a worker has written and whose event has not arrived. For the
    /// idle probe.
    pub unseen_writes: usize,
}

impl Partition {
    /// An empty partition.
    #[must_use]
    pub fn new(id: PartitionId, sharding: Sharding, catalog: Arc<Catalog>) -> Self {
        let store = Store::new(sharding.seed());
        let hasher = store.node_hasher;
        Self {
            id,
            sharding,
            catalog,
            store,
            progress: KeyedMap::with_hasher(hasher),
            cycles: Cycles::new(hasher),
            expected: KeyedMap::with_hasher(hasher),
            invalid_scope_candidates: KeyedSet::with_hasher(hasher),
            noticed: KeyedMap::with_hasher(hasher),
            disturbance: Disturbance::default(),
        }
    }

    /// Which partition this is.
    #[must_use]
    pub const fn id(&self) -> PartitionId {
        self.id
    }

    /// Applies what a monitor or discovery tells.
    pub fn intake(&mut self, intake: Intake, out: &mut Effects) -> IntakeOutcome {
        match intake {
            Intake::MonitorStarted { resource, epoch, deletes_prove } => {
                self.monitor_started(&resource, epoch, deletes_prove)
            }
            Intake::Events { resource, epoch, events } => self.apply_events(&resource, epoch, &events, out),
            Intake::TypeUnserved { resource, epoch } => self.type_unserved(&resource, epoch, out),
            Intake::TypeRemoved { resource, epoch, proved_under } => {
                self.type_removed(&resource, epoch, proved_under, out)
            }
        }
    }

    /// Applies what another partition tells.
    pub fn receive(&mut self, message: PeerMessage, out: &mut Effects) {
        match message {
            PeerMessage::Link(link) => self.link(&link, out),
            PeerMessage::Unlink { dependent, owner } => self.unlink(&dependent, &owner, out),
        }
    }

    fn monitor_started(
        &mut self,
        resource: &Arc<ResourceType>,
        epoch: Epoch,
        deletes_prove: DeletesProve,
    ) -> IntakeOutcome {
        let id = self.store.types.find_or_insert(resource);
        let entry = &mut self.store.types.entries[id];
        match &entry.monitor {
            Some(monitor) if monitor.epoch > epoch => return IntakeOutcome::Stale,
            Some(monitor) if monitor.epoch == epoch => return IntakeOutcome::Applied,
            _ => {}
        }
        entry.resource = Arc::clone(resource);
        entry.unserved = false;
        // Versions that another server gave are no measure for the next one's.
        let before = entry.versions_of.replace(deletes_prove);
        let is_foreign = before.is_some_and(|before| before != deletes_prove);
        entry.monitor =
            Some(MonitorState { epoch, deletes_prove, synced: false, listing: Listing::None, is_foreign });
        IntakeOutcome::Applied
    }

    fn apply_events(
        &mut self,
        resource: &ResourceType,
        epoch: Epoch,
        events: &[WatchEvent],
        out: &mut Effects,
    ) -> IntakeOutcome {
        let Some(type_id) = self.store.types.find(&resource.group_resource) else {
            return IntakeOutcome::Stale;
        };
        let Some(deletes_prove) = self.store.types.entries[type_id]
            .monitor
            .as_ref()
            .filter(|monitor| monitor.epoch == epoch)
            .map(|monitor| monitor.deletes_prove)
        else {
            return IntakeOutcome::Stale;
        };
        for events in events.chunks(AT_ONCE) {
            // One that is alone has been read for by whoever had several of these.
            if events.len() > 1 {
                self.prefetch(events.iter());
            }
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
        }
        IntakeOutcome::Applied
    }

    /// Whether a monitor of this type runs and has shown a complete list. Until
    /// then an observed node of the type says nothing about what exists.
    #[must_use]
    pub fn is_synced(&self, group_resource: &GroupResource) -> bool {
        let types = &self.store.types;
        types.find(group_resource).is_some_and(|id| types.entries[id].is_synced())
    }

    /// Forgets everything: the store was restored from a backup, so that versions
    /// went back and uids may return. Monitors start afresh.
    pub fn reset(&mut self) {
        let disturbance = std::mem::take(&mut self.disturbance);
        *self = Self { disturbance, ..Self::new(self.id, self.sharding, Arc::clone(&self.catalog)) };
    }

    /// Notes that a worker's write succeeded and its event has not been seen yet.
    /// Nothing is noted if the node is already as the write left it, or gone.
    ///
    /// Until the event comes the node is not decided on again: what is known of it
    /// is outdated for certain, and a second DELETE or patch would only be refused.
    pub fn expect_event(&mut self, key: &Key, change: &ExpectedChange) {
        let Some(id) = self.store.find_key(key).filter(|&id| self.store.nodes[id].is_observed()) else {
            return;
        };
        // Nobody would show an event.
        if !self.store.is_monitored(id) {
            return;
        }
        let shows = match change {
            ExpectedChange::Removed => false,
            ExpectedChange::Version(version) => self.store.version(id).is_some_and(|seen| seen >= *version),
        };
        if shows {
            return;
        }
        // An object served twice goes under all its names, and each watch says so in
        // its own time: the view that takes over must not be deleted once more.
        // (Versions of the views need not be comparable.)
        let views = if *change == ExpectedChange::Removed { self.group(id) } else { smallvec::smallvec![id] };
        for view in views {
            // Whoever was put off for an earlier write waits for this one.
            let asked = self.expected.get(&view).is_some_and(|earlier| earlier.asked);
            self.expected.insert(view, Expectation { change: change.clone(), asked });
        }
    }

    /// Called with every event of a node that has a newer version than it had.
    pub(super) fn note_event(&mut self, id: NodeId, out: &mut Effects) {
        let Some(expectation) = self.expected.get(&id) else { return };
        let pending = match (&expectation.change, self.store.version(id)) {
            // Versions that cannot be compared, or mean nothing: any event will do.
            (ExpectedChange::Version(version), Some(seen)) => {
                version.is_after(&seen) && self.store.versions_order(id)
            }
            _ => false,
        };
        if !pending && self.expected.remove(&id).is_some_and(|expectation| expectation.asked) {
            self.queue(id, out);
        }
    }

    /// Whether a write of ours to a node has not been seen yet; if so, the node is
    /// queued again when it has.
    pub(super) fn awaits_event(&mut self, id: NodeId) -> bool {
        self.expected.get_mut(&id).map(|expectation| expectation.asked = true).is_some()
    }

    /// The size of the partition.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            nodes: self.store.nodes.len(),
            virtual_nodes: self.store.virtual_nodes(),
            edges: self.store.edges.len(),
            unresolved: self.store.unresolved_edges(),
            bytes: self.store.memory_usage().total(),
            unseen_writes: self.expected.len(),
        }
    }

    /// What this partition takes up.
    #[must_use]
    pub fn memory_usage(&self) -> MemoryUsage {
        self.store.memory_usage()
    }

    /// How many objects of a type are here.
    #[must_use]
    pub fn population(&self, group_resource: &GroupResource) -> usize {
        let types = &self.store.types;
        types.find(group_resource).map_or(0, |id| types.entries[id].observed)
    }

    /// Queues a node for the delete pool, under its primary name if it has several.
    pub(super) fn queue(&self, id: NodeId, out: &mut Effects) {
        let id = self.primary(id);
        // One object that names thousands of owners is queued for each of them.
        let is_last = |last: &Key| last.uid == self.store.nodes[id].uid && *last == self.store.key(id);
        if !out.delete.last().is_some_and(is_last) {
            out.delete.push(self.store.key(id));
        }
    }

    /// Queues a node for the orphan pool.
    pub(super) fn queue_orphaning(&self, id: NodeId, out: &mut Effects) {
        out.orphan.push(self.store.key(self.primary(id)));
    }

    /// Queues every dependent of a node.
    pub(super) fn queue_dependents(&self, id: NodeId, out: &mut Effects) {
        for edge in self.store.dependents(id) {
            self.queue(self.store.edges[edge].dependent, out);
        }
    }

    /// Queues every dependent of a node that is gone or deletes them.
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

    /// Frees a node that nothing needs any more.
    pub(super) fn collect(&mut self, id: NodeId) {
        let node = &self.store.nodes[id];
        match (node.presence, node.first_owner, node.first_dependent) {
            (Presence::Observed, ..) => {}
            (_, None, None) => self.store.free(id),
            (Presence::Linked, None, Some(_)) => {
                // What the last link said is no longer kept up to date.
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
impl Partition {
    /// Panics unless everything is consistent.
    pub(super) fn check(&self) {
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
}
