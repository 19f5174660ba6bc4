//! Kinds that are added, removed and moved (rules 2.8 to 2.13).
//!
//! In three cases a reference keeps its resolved type after the catalog has dropped it:
//!
//! - A monitor of the type is still being drained. The last deletions of a deleted CRD's objects
//!   are still on their way, and need the edges to queue dependents.
//! - The owner was proved absent. Its dependents have to be collected, whatever happens to its
//!   type.
//! - The owner lives in partition 0 and its type is gone. Partition 0 knows what was proved
//!   about the owner.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::object::{Catalog, GroupResource, KeyedSet, ResourceType, Scope};

use super::foreground::Touched;
use super::node::{Edge, EdgeId, NodeId, Presence, ReferenceTypeId, Target, TypeId};
use super::peers::RemoteOwners;
use super::{Effects, Epoch, Partition, Sharding};

impl Partition {
    /// Replaces the catalog. References that resolve now are attached to their owners, and those
    /// whose kind or version disappeared become unresolved; the dependents are queued. Unverified
    /// owners are queued if their type is new.
    pub fn set_catalog(&mut self, catalog: Arc<Catalog>, out: &mut Effects) {
        let before = std::mem::replace(&mut self.catalog, catalog);
        let catalog = Arc::clone(&self.catalog);
        let mut appeared = Vec::new();
        for id in self.store.types.entries.ids() {
            let entry = &mut self.store.types.entries[id];
            let group_resource = &entry.resource.group_resource;
            let Some(resource) = catalog.resource(group_resource) else { continue };
            if before.resource(group_resource).is_none() {
                appeared.push(id);
            }
            // A type with another scope is another type, and gets a new monitor.
            if resource.scope == entry.resource.scope {
                entry.resource = Arc::clone(resource);
            }
        }
        for &id in &appeared {
            self.queue_undecided(id, out);
        }
        self.resolve_again(|_| true, out);
    }

    /// Resolves the references of these types by the catalog, and moves those that resolve to another
    /// type now.
    fn resolve_again(&mut self, which: impl Fn(Option<&Arc<ResourceType>>) -> bool, out: &mut Effects) {
        let catalog = Arc::clone(&self.catalog);
        let mut changed = Vec::new();
        for id in self.store.reference_types.ids() {
            let reference_type = self.store.reference_types.get(id);
            let old = reference_type.known.clone();
            let new = catalog.resolve(&reference_type.key.api_version, &reference_type.key.kind).cloned();
            if !which(old.as_ref()) || self.is_kept(old.as_ref(), new.as_ref()) {
                continue;
            }
            if !same_type(old.as_ref(), new.as_ref()) {
                changed.push(id);
            }
            *self.store.reference_types.known_mut(id) = new;
        }
        self.retarget(&changed, out);
    }

    /// Discovery no longer shows a type, and its monitor of this epoch has been drained; nothing
    /// happens if another one runs. It is unknown whether the type is gone. The nodes stay, and still
    /// name and block owners, but no longer prove that an owner exists.
    pub fn type_unserved(&mut self, resource: &ResourceType, epoch: Epoch, out: &mut Effects) {
        let Some(type_id) = self.store.types.find(&resource.group_resource) else { return };
        let entry = &mut self.store.types.entries[type_id];
        if entry.monitor.as_ref().is_some_and(|monitor| monitor.epoch != epoch) {
            return;
        }
        entry.monitor = None;
        entry.unserved = true;
        let nodes = entry.nodes.clone();
        for id in nodes {
            if self.expected.remove(&id).is_some_and(|expectation| expectation.asked) {
                self.queue(id, out);
            }
        }
        self.store.types.release(type_id);
    }

    /// A type is gone, and its monitor of this epoch has been drained; nothing happens if another one
    /// runs. The nodes are removed, which does not count as a deletion; references to them become
    /// unresolved. `proved_under` is the number of the latest
    /// [`Disturbance`](crate::object::Disturbance) when that was proved, if it was.
    pub fn type_removed(
        &mut self,
        resource: &ResourceType,
        epoch: Epoch,
        proved_under: Option<u64>,
        out: &mut Effects,
    ) {
        let group_resource = &resource.group_resource;
        if let Some(type_id) = self.store.types.find(group_resource) {
            let entry = &mut self.store.types.entries[type_id];
            if entry.monitor.as_ref().is_some_and(|monitor| monitor.epoch != epoch) {
                return;
            }
            entry.monitor = None;
            entry.unserved = false;
            let observed: Vec<NodeId> =
                entry.nodes.iter().copied().filter(|&id| self.store.nodes[id].is_observed()).collect();
            for id in observed {
                self.demote_to_virtual(id, out);
                self.collect(id);
            }
            if proved_under.is_some_and(|number| number >= self.disturbance.number) {
                self.confirm_absences(type_id, out);
            }
            if let Some(type_id) = self.store.types.find(group_resource) {
                self.store.types.release(type_id);
            }
        }
        self.resolve_again(|old| old.is_some_and(|old| old.group_resource == *group_resource), out);
        if let Some(type_id) = self.store.types.find(group_resource) {
            // It still resolves: it is served but cannot be watched, or other partitions link to it.
            self.queue_undecided(type_id, out);
        }
    }

    /// Queues the virtual nodes of a type, and the dependents of its remote nodes.
    fn queue_undecided(&self, type_id: TypeId, out: &mut Effects) {
        for &id in &self.store.types.entries[type_id].nodes {
            match self.store.nodes[id].presence {
                Presence::Virtual => self.queue(id, out),
                Presence::Remote => self.queue_dependents(id, out),
                _ => {}
            }
        }
    }

    /// Whether a reference keeps its old type, as described above.
    fn is_kept(&self, old: Option<&Arc<ResourceType>>, new: Option<&Arc<ResourceType>>) -> bool {
        let Some(old) = old else { return false };
        let served = |group_resource: &GroupResource| {
            self.catalog.resource(group_resource).is_some_and(|resource| resource.scope == old.scope)
        };
        if same_type(Some(old), new) || served(&old.group_resource) {
            return false;
        }
        let watched = self.store.types.find(&old.group_resource).is_some_and(|id| {
            let entry = &self.store.types.entries[id];
            (entry.monitor.is_some() || entry.unserved) && entry.resource.scope == old.scope
        });
        let remote = new.is_none() && old.scope == Scope::Cluster && self.id != Sharding::CLUSTER;
        watched || remote
    }

    /// Moves references of these types to the owner nodes that they resolve to now, except for
    /// links, which the sender resolves.
    fn retarget(&mut self, changed: &[ReferenceTypeId], out: &mut Effects) {
        if changed.is_empty() {
            return;
        }
        let mut marked = KeyedSet::with_hasher(self.store.hasher);
        marked.extend(changed.iter().copied());
        let edges: Vec<EdgeId> = self
            .store
            .edges
            .iter()
            .filter(|(id, edge)| marked.contains(&edge.reference_type) && self.is_misplaced(*id, edge))
            .map(|(id, _)| id)
            .collect();
        let dependents: BTreeSet<NodeId> =
            edges.iter().map(|&edge| self.store.edges[edge].dependent).collect();
        let before: Vec<(NodeId, Touched, RemoteOwners)> = dependents
            .iter()
            .map(|&id| (id, self.subtract_from_owners(id), self.remote_owners(id)))
            .collect();
        // First detach all of them: a type that came back with another scope has the same key
        // and needs new nodes.
        for &edge in &edges {
            let reference_type = self.store.edges[edge].reference_type;
            self.move_edge(edge, Target::Unresolved(reference_type));
        }
        for &edge in &edges {
            let Edge { dependent, owner, reference_type, .. } = self.store.edges[edge];
            let target = self.resolve(reference_type);
            let new_owner = target != self.store.nodes[owner].target && self.move_edge(edge, target);
            self.edge_added(edge, new_owner, self.is_large(dependent), out);
        }
        for (id, touched, remote) in before {
            self.add_to_owners(id, touched, out);
            self.unlink_lost(id, remote, out);
            self.send_links(id, out);
            self.queue(id, out);
        }
    }

    fn is_misplaced(&self, id: EdgeId, edge: &Edge) -> bool {
        if self.store.nodes[edge.dependent].presence == Presence::Linked {
            return false;
        }
        let now = self.store.resource_of(edge.owner);
        let wanted = self.store.reference_types.get(edge.reference_type).known.as_ref();
        let was_proved = || self.store.formerly_absent.contains(&edge.owner);
        let proved = (self.store.nodes[edge.owner].presence == Presence::Absent || was_proved())
            && self.store.matches(id);
        !(same_type(now, wanted) || (proved && wanted.is_none()))
    }

    /// Moves an edge. Returns whether its owner node is new.
    fn move_edge(&mut self, edge: EdgeId, target: Target) -> bool {
        let Edge { dependent, owner: from, .. } = self.store.edges[edge];
        let uid = self.store.nodes[from].uid.clone();
        let name: Box<str> = self.store.reference_name(edge).into();
        let (to, new_owner) = self.owner_node(dependent, &uid, &name, target);
        if to != from {
            self.store.set_edge_owner(edge, to);
            self.collect_owner(from, dependent);
        }
        new_owner
    }
}

fn same_type(a: Option<&Arc<ResourceType>>, b: Option<&Arc<ResourceType>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.group_resource == b.group_resource && a.scope == b.scope,
        (a, b) => a.is_none() && b.is_none(),
    }
}
