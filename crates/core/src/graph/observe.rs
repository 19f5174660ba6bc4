//! Objects that a monitor shows: new, known or changed, and those that a list no longer contains
//! (rules 1.16 and 1.17).

use std::cmp::Ordering;

use super::attach::Extent;
use super::node::{EdgeId, Listing, NodeId, Presence, Target, TypeId};
use super::store::Store;
use super::{DeletesProve, Effects, Partition};
use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, ObjectFacts, ResourceVersion};

impl Partition {
    /// Applies an object that a list or a watch showed.
    pub(super) fn apply(&mut self, type_id: TypeId, facts: &ObjectFacts, out: &mut Effects) {
        match self.store.find(&facts.uid, Target::Served(type_id)) {
            Some(id) if self.store.nodes[id].is_observed() => {
                let was = self.store.version(id).cloned();
                self.update(id, facts, out);
                // A list shows the latest state and hides what happened in between. For
                // example, a finalizer that we removed may be back. Earlier work on the node
                // relied on events that will never arrive.
                if self.store.types.entries[type_id].is_listing() && self.store.version(id) != was.as_ref() {
                    self.derive_work(id, out);
                    if self.store.nodes[id].is_deleting_dependents() {
                        // The owner may have been solid for a while, and dependents that were
                        // kept for that reason have to be evaluated again.
                        self.queue_live_dependents(id, out);
                    }
                }
            }
            Some(id) => self.observe_new(id, type_id, facts, out),
            None => {
                let (namespace, target) = (facts.namespace.as_ref(), Target::Served(type_id));
                let id = self.store.create(&facts.uid, target, namespace, &facts.name, Presence::Observed);
                self.observe_new(id, type_id, facts, out);
            }
        }
    }

    /// A node that was not observed, or is new, becomes observed.
    fn observe_new(&mut self, id: NodeId, type_id: TypeId, facts: &ObjectFacts, out: &mut Effects) {
        let was = self.store.nodes[id].presence;
        let guess = (was == Presence::Absent).then(|| self.store.identity(id));
        if was == Presence::Remote {
            // The type was cluster-scoped and is namespaced now.
            self.unlink_dependents(id, out);
        }
        self.store.relocate(id, facts.namespace.as_ref(), &facts.name);
        self.store.set_presence(id, Presence::Observed);
        out.present.extend(guess.filter(|guess| *guess == self.store.identity(id)));
        let deletion = facts.deletion_state();
        let entry = &self.store.types.entries[type_id];
        if entry.was_listed && entry.listing() == Listing::UpToDate && !deletion.is_being_deleted() {
            out.revived.push(self.store.identity(id));
        }
        let node = &mut self.store.nodes[id];
        node.version.clone_from(&facts.resource_version);
        node.finalizers = facts.finalizers;
        node.held_by_others = facts.held_by_others;
        self.note_grace(id, facts);
        let node = &mut self.store.nodes[id];
        node.deletion = deletion;
        node.listed = true;
        let touched = self.subtract_from_owners(id);
        self.set_references(id, &facts.owners, Extent::All, out);
        self.add_to_owners(id, touched, out);
        self.update_roles(&facts.uid, out);
        self.report_collisions(id, out);
        self.queue_mismatched_dependents(id, out);
        self.deletion_state_changed(id, DeletionState::Live, out);
        self.send_links(id, out);
    }

    /// Updates an observed node. The object is compared with the node and not with the previous
    /// event, because events may be skipped.
    fn update(&mut self, id: NodeId, facts: &ObjectFacts, out: &mut Effects) {
        self.store.nodes[id].listed = true;
        let (known, shown) = (self.store.version(id), facts.resource_version.as_ref());
        let newer = known != shown;
        if known.zip(shown).is_some_and(|(known, shown)| known.is_after(shown))
            && !self.accepts_older_version(id, facts, out)
        {
            return;
        }
        let was = self.store.nodes[id].deletion;
        if newer {
            self.store.nodes[id].version.clone_from(&facts.resource_version);
            self.note_event(id, out);
        }
        let deletion = facts.deletion_state();
        self.store.nodes[id].held_by_others = facts.held_by_others;
        self.note_grace(id, facts);
        let node = &self.store.nodes[id];
        let moved =
            self.store.name(id) != &*facts.name || self.store.namespace(id) != facts.namespace.as_ref();
        let same_state = node.finalizers == facts.finalizers && was == deletion;
        if !moved && same_state && self.has_references(id, facts) {
            return;
        }
        self.store.bump(id);
        let remote = self.remote_owners(id);
        let touched = self.subtract_from_owners(id);
        if moved {
            self.store.relocate(id, facts.namespace.as_ref(), &facts.name);
        }
        self.store.nodes[id].finalizers = facts.finalizers;
        self.store.nodes[id].deletion = deletion;
        let rewritten = self.set_references(id, &facts.owners, Extent::All, out);
        self.add_to_owners(id, touched, out);
        if moved {
            self.recount(id);
            self.update_roles(&facts.uid, out);
            self.report_collisions(id, out);
            self.queue_mismatched_dependents(id, out);
        }
        self.deletion_state_changed(id, was, out);
        // Otherwise a dependent that was parked for an invalid reference would stay parked.
        let returned = was.is_being_deleted() && !deletion.is_being_deleted();
        if (rewritten || moved || returned) && !self.store.owners(id).all(|edge| self.is_settled(edge)) {
            self.queue(id, out);
        }
        self.unlink_lost(id, remote, out);
        self.send_links(id, out);
    }

    /// Whether a node accepts a lower version than it has.
    fn accepts_older_version(&self, id: NodeId, facts: &ObjectFacts, out: &mut Effects) -> bool {
        let Some(entry) = self.store.type_of(id) else { return false };
        if !self.store.versions_order(id) {
            return true;
        }
        // Watches repeat events, and a list may be older than the node.
        if entry.listing() != Listing::UpToDate {
            return false;
        }
        // The versions of an object only grow, so the store was restored.
        out.restored.get_or_insert_with(|| {
            let (resource, known) = (&entry.resource.group_resource, self.store.version(id));
            let version = |version: Option<&ResourceVersion>| version.map(ToString::to_string);
            let (shown, known) = (version(facts.resource_version.as_ref()), version(known));
            let (shown, known) = (shown.unwrap_or_default(), known.unwrap_or_default());
            format!("a list of {resource} shows an object at version {shown}, but its version {known} was seen before")
        });
        true
    }

    fn has_references(&self, id: NodeId, facts: &ObjectFacts) -> bool {
        let mut references = facts.owners.iter();
        self.store
            .owners(id)
            .all(|edge| references.next().is_some_and(|reference| self.store.is_reference(edge, reference)))
            && references.next().is_none()
    }

    /// Whether evaluating a reference cannot change anything.
    pub(super) fn is_settled(&self, edge: EdgeId) -> bool {
        self.is_known_solid(edge) || self.is_invalid_scope(edge)
    }

    /// Applies the rules for a change of the deletion state. They compare states and not single
    /// fields, so that a second foreground deletion works like the first (kubernetes#115570).
    fn deletion_state_changed(&mut self, id: NodeId, was: DeletionState, out: &mut Effects) {
        let now = self.store.nodes[id].deletion;
        if now == was {
            return;
        }
        self.recount(id);
        match now {
            DeletionState::DeletingDependents => {
                for member in self.group(id) {
                    self.queue_cascade(member, out);
                }
                self.queue(id, out);
            }
            DeletionState::Orphaning => self.queue_orphaning(id, out),
            // Dependents that were waiting and were not deleted have a solid owner now.
            DeletionState::Live | DeletionState::Terminating if was == DeletionState::DeletingDependents => {
                for member in self.group(id) {
                    self.queue_live_dependents(member, out);
                }
            }
            DeletionState::Live | DeletionState::Terminating => {}
        }
    }

    /// Remembers that an object is being deleted, which is stuck if it is still there after its grace period.
    fn note_grace(&mut self, id: NodeId, facts: &ObjectFacts) {
        if facts.being_deleted {
            self.may_be_stuck.insert(id, (facts.grace, facts.ends));
        }
    }

    /// Queues a node if its state requires work.
    pub(super) fn derive_work(&self, id: NodeId, out: &mut Effects) {
        let node = &self.store.nodes[id];
        let doubtful = || {
            let remote = |edge| self.store.nodes[self.store.edges[edge].owner].presence == Presence::Remote;
            self.store.owners(id).any(|edge| !remote(edge) && !self.is_settled(edge))
        };
        match node.presence {
            // Its dependents verify it.
            Presence::Virtual if self.is_verified_by_large(id) => {}
            Presence::Virtual => self.queue(id, out),
            Presence::Observed if self.is_alias(id) => {}
            Presence::Observed => match node.deletion {
                DeletionState::Orphaning => self.queue_orphaning(id, out),
                DeletionState::DeletingDependents => self.queue(id, out),
                DeletionState::Live if doubtful() => self.queue(id, out),
                DeletionState::Live | DeletionState::Terminating => {}
            },
            Presence::Linked if !node.deletion.is_being_deleted() && doubtful() => self.queue(id, out),
            Presence::Linked
            | Presence::Absent
            | Presence::Remote
            | Presence::Unresolved
            | Presence::InvalidScope => {}
        }
    }

    /// Derives all work from the graph, for the moment when the write gate opens (rule 8.10).
    /// Queues every virtual node, every node that is deleting dependents or orphaning, and every
    /// dependent with a reference that is not known to be solid.
    ///
    /// Partition 0 evaluates the references to its owners, so the caller has to call this on
    /// every partition.
    pub fn rederive(&self, out: &mut Effects) {
        for (id, _) in self.store.nodes.iter() {
            self.derive_work(id, out);
        }
    }
}

impl Partition {
    pub(super) fn list_began(&mut self, type_id: TypeId, is_version_known: bool) {
        let Store { types, nodes, .. } = &mut self.store;
        let entry = &mut types.entries[type_id];
        for &id in &entry.nodes {
            nodes[id].listed = false;
        }
        if let Some(monitor) = &mut entry.monitor {
            monitor.listing = if is_version_known { Listing::UpToDate } else { Listing::OfUnknownVersion };
        }
    }

    /// A list is complete. A node whose uid was not in it is gone, unless the node's version
    /// is greater than the list's: such an object was created after the list was taken.
    pub(super) fn list_ended(
        &mut self,
        type_id: TypeId,
        version: Option<&ResourceVersion>,
        deletes_prove: DeletesProve,
        out: &mut Effects,
    ) {
        let entry = &mut self.store.types.entries[type_id];
        let is_foreign = match &mut entry.monitor {
            Some(monitor) if monitor.listing != Listing::None => {
                monitor.listing = Listing::None;
                monitor.synced = true;
                std::mem::take(&mut monitor.is_foreign)
            }
            // An end without a beginning proves nothing.
            _ => return,
        };
        entry.was_listed = true;
        let missing: Vec<NodeId> = entry
            .nodes
            .iter()
            .copied()
            .filter(|&id| self.store.nodes[id].is_observed() && !self.store.nodes[id].listed)
            .collect();
        for id in missing {
            if is_foreign {
                self.object_gone(id, DeletesProve::Nothing, out);
                continue;
            }
            let order = self.store.version(id).zip(version).and_then(|(a, b)| a.partial_cmp(b));
            match order {
                // Created after the list, if versions are ordered at all.
                Some(Ordering::Greater)
                    if deletes_prove == DeletesProve::Absence && !mutation::is(Mutation::TrustOldList) => {}
                Some(_) => self.object_gone_at(id, deletes_prove, version, out),
                // Versions that cannot be compared prove nothing.
                None => self.object_gone(id, DeletesProve::Nothing, out),
            }
        }
    }
}
