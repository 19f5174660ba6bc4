//! What workers ask.

use std::collections::BTreeSet;

use hashbrown::HashSet;

use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, Identity, Key, Uid};

use super::intern::Fixed;
use super::node::{EdgeId, NodeId, Presence};
use super::{
    Cursor, DependentView, Effects, ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView,
    Partition, ReferenceSnapshot, Snapshot, VirtualSnapshot,
};

impl Partition {
    /// The state of a key's node, for a worker that decides on it now.
    ///
    /// For a node that is deleting dependents this also queues what blocks it
    /// and is not deleting dependents itself.
    pub fn snapshot(&mut self, key: &Key, out: &mut Effects) -> Snapshot {
        let Some(id) = self.store.find_key(key) else { return Snapshot::Gone };
        let presence = self.store.nodes[id].presence;
        match presence {
            Presence::Observed if self.is_alias(id) => {
                // Queued before the primary view of the object showed up.
                self.queue(id, out);
                Snapshot::Gone
            }
            Presence::Observed if self.awaits_event(id) => Snapshot::Written,
            Presence::Observed => Snapshot::Object(Box::new(self.object_snapshot(id, out))),
            Presence::Virtual => Snapshot::Virtual(VirtualSnapshot {
                identity: self.store.identity(id),
                generation: Generation(self.store.nodes[id].generation),
            }),
            Presence::Absent
            | Presence::Remote
            | Presence::Unresolved
            | Presence::InvalidScope
            | Presence::Linked => Snapshot::Gone,
        }
    }

    fn object_snapshot(&self, id: NodeId, out: &mut Effects) -> ObjectSnapshot {
        let node = &self.store.nodes[id];
        let references: Vec<ReferenceSnapshot> = self
            .store
            .owners(id)
            .map(|edge| ReferenceSnapshot {
                reference: self.store.written(edge),
                owner: self.owner_view(edge),
            })
            .collect();
        let foreground = match node.deletion {
            DeletionState::DeletingDependents => self.foreground(id, out),
            _ => ForegroundProgress::Unblocked,
        };
        ObjectSnapshot {
            identity: self.store.identity(id),
            resource_version: self.store.version(id),
            generation: Generation(node.generation),
            deletion: node.deletion,
            finalizers: node.finalizers,
            has_dependents: self.counted_dependents(id).next().is_some(),
            // Without references nothing is decided by it, and it may take a look at many.
            has_dependent_deleting_dependents: !references.is_empty()
                && self.counted_dependents(id).any(|edge| self.dependent_deletes_dependents(edge)),
            references,
            foreground,
        }
    }

    fn dependent_deletes_dependents(&self, edge: EdgeId) -> bool {
        self.store.nodes[self.store.edges[edge].dependent].is_deleting_dependents()
    }

    fn foreground(&self, id: NodeId, out: &mut Effects) -> ForegroundProgress {
        let (mut blocking, mut active) = (BTreeSet::new(), false);
        for edge in self.counted_dependents(id).filter(|&edge| self.store.edges[edge].blocking) {
            let dependent = self.store.edges[edge].dependent;
            if blocking.insert(dependent) && !self.store.nodes[dependent].is_deleting_dependents() {
                active = true;
                self.queue(dependent, out);
            }
        }
        if blocking.is_empty() && self.catalog.has_unread() {
            ForegroundProgress::PerhapsBlocked
        } else if blocking.is_empty() {
            ForegroundProgress::Unblocked
        } else if !active && self.reaches_itself(id) && !mutation::is(Mutation::WaitInRings) {
            ForegroundProgress::Deadlocked
        } else {
            ForegroundProgress::Blocked(blocking.len())
        }
    }

    /// Whether a dependent in this partition blocks the owner with this uid through
    /// an `apiVersion` whose kinds could not be read so far. Such a reference
    /// hangs on no owner until it resolves, and holds it all the same.
    #[must_use]
    pub fn is_blocked_through_unread(&self, owner: &Uid) -> bool {
        self.store.unresolved_with(owner).any(|(id, reference_type)| {
            let api_version = &self.store.reference_types.get(reference_type).api_version;
            self.catalog.is_unread(api_version)
                && self.store.dependents(id).any(|edge| self.store.edges[edge].blocking)
        })
    }

    /// Whether a node blocks itself through others, over blocking references
    /// between nodes that are all deleting dependents.
    fn reaches_itself(&self, start: NodeId) -> bool {
        let mut seen: HashSet<NodeId, Fixed> = HashSet::default();
        let mut open = vec![start];
        while let Some(id) = open.pop() {
            for edge in self.counted_dependents(id) {
                if !self.store.edges[edge].blocking || !self.dependent_deletes_dependents(edge) {
                    continue;
                }
                let dependent = self.store.edges[edge].dependent;
                if self.same_object(dependent, start) {
                    return true;
                }
                if seen.insert(dependent) {
                    open.push(dependent);
                }
            }
        }
        false
    }

    fn owner_view(&self, edge: EdgeId) -> OwnerView {
        let owner = self.store.edges[edge].owner;
        match self.store.nodes[owner].presence {
            Presence::Unresolved => OwnerView::Unresolved,
            _ if self.is_invalid_scope(edge) => OwnerView::InvalidScope,
            Presence::Remote => OwnerView::Remote(self.store.meant(edge)),
            _ => {
                let identity = self.store.meant(edge);
                let state = self.state_of(owner, &identity);
                OwnerView::Local { identity, state }
            }
        }
    }

    /// What this partition knows about an identity.
    #[must_use]
    pub fn owner_state(&self, identity: &Identity) -> OwnerState {
        match self.store.find_key(&identity.key()) {
            Some(id) => self.state_of(id, identity),
            None => OwnerState::Unknown,
        }
    }

    fn state_of(&self, id: NodeId, identity: &Identity) -> OwnerState {
        let node = &self.store.nodes[id];
        let same_namespace = self.store.namespace(id) == identity.namespace.as_ref();
        if self.store.name(id) != &*identity.name
            || !(same_namespace || mutation::is(Mutation::IgnoreNamespace))
        {
            return OwnerState::Unknown;
        }
        match node.presence {
            Presence::Observed if self.store.is_synced(id) => {
                OwnerState::Observed { resource_version: self.store.version(id), deletion: node.deletion }
            }
            Presence::Absent => OwnerState::Absent,
            _ => OwnerState::Unknown,
        }
    }

    /// A page of an object's dependents, under whatever name they refer to it,
    /// each once, and the cursor of the next page if there may be one.
    ///
    /// The order is stable: what is there from the first page to the last is
    /// shown, whatever comes and goes in between. Takes memory for one page only.
    #[must_use]
    pub fn dependents(
        &self,
        owner: &Key,
        after: Option<Cursor>,
        limit: usize,
    ) -> (Vec<DependentView>, Option<Cursor>) {
        let Some(id) = self.store.find_key(owner) else { return (Vec::new(), None) };
        let mut page: BTreeSet<NodeId> = BTreeSet::new();
        let mut more = false;
        for edge in self.counted_dependents(id) {
            let dependent = self.store.edges[edge].dependent;
            if after.is_some_and(|Cursor(after)| dependent.number() <= after) {
                continue;
            }
            page.insert(dependent);
            if page.len() > limit {
                page.pop_last();
                more = true;
            }
        }
        let next = if more { page.last().map(|id| Cursor(id.number())) } else { None };
        (page.into_iter().filter_map(|dependent| self.dependent_view(dependent, id)).collect(), next)
    }

    fn dependent_view(&self, dependent: NodeId, owner: NodeId) -> Option<DependentView> {
        let edge = self
            .store
            .owners(dependent)
            .find(|&edge| self.same_object(self.store.edges[edge].owner, owner) && self.counts(edge))?;
        Some(DependentView {
            identity: self.store.identity(dependent),
            reference: self.store.written(edge),
            shares_uid: self.shares_uid(edge),
        })
    }

    /// Whether another of the dependent's references has this one's uid.
    pub(super) fn shares_uid(&self, edge: EdgeId) -> bool {
        let dependent = self.store.edges[edge].dependent;
        let uid = |edge: EdgeId| &self.store.nodes[self.store.edges[edge].owner].uid;
        self.store.nodes[dependent].shares_uid
            || self.store.owners(dependent).any(|other| other != edge && uid(other) == uid(edge))
    }

    /// The identity of a key's node: what was observed or, of an owner that is to be
    /// verified, what is guessed.
    #[must_use]
    pub fn identify(&self, key: &Key) -> Option<Identity> {
        self.store.find_key(key).map(|id| self.store.identity(id))
    }

    /// An observed object with this uid in this partition, under its primary name.
    #[must_use]
    pub fn observed(&self, uid: &Uid) -> Option<Identity> {
        self.store.observed_with(uid).first().map(|&id| self.store.identity(id))
    }
}
