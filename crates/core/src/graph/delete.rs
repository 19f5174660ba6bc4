//! Deleted objects and proved absences (rules 3.15 to 3.20), and what is still proved after watches
//! broke.
//!
//! While watches are broken, the store can be restored from a backup, which brings uids back.
//! Therefore earlier proofs of absence no longer count, and such owners are verified again.
//! A deletion that was read before the watch broke may also arrive afterwards. Deletions are
//! proof again after the version at which the store was found after the disturbance.

use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;

use super::node::{EdgeId, Node, NodeId, Presence, Role, Target, TypeId};
use super::{DeletesProve, Effects, Generation, Partition};
use crate::mutation::{self, Mutation};
use crate::object::{
    DeletionState, Disturbance, Finalizers, Identity, Key, Namespace, ObjectFacts, ResourceVersion, Scope,
};

/// What a look-up proves about an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Proved absent.
    Absent,
    /// Its type is not served, which proves nothing.
    NotServed,
}

/// The effect of a verdict on an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The verdict is in the graph, and the key is done.
    Applied,
    /// The node is still virtual, perhaps with another identity: retry with backoff.
    Retry,
    /// The node changed while the verdict was reached. The verdict is discarded and the key is
    /// queued again.
    Stale,
}

impl Partition {
    /// Applies a DELETED event.
    pub(super) fn deleted(
        &mut self,
        type_id: TypeId,
        facts: &ObjectFacts,
        deletes_prove: DeletesProve,
        out: &mut Effects,
    ) {
        let Some(id) = self.store.find(&facts.uid, Target::Served(type_id)) else { return };
        let version = facts.resource_version.as_ref();
        match self.store.nodes[id].presence {
            Presence::Observed => self.object_gone_at(id, deletes_prove, version, out),
            // The object was created and deleted before it was seen here.
            Presence::Virtual if self.proof_of_delete(deletes_prove, version) == DeletesProve::Absence => {
                let gone = Identity {
                    resource: Arc::clone(self.store.resource(id)),
                    namespace: facts.namespace.clone(),
                    name: facts.name.clone(),
                    uid: facts.uid.clone(),
                };
                let start = out.delete.len();
                self.virtual_delete(id, &gone, out);
                out.cascade_from(start);
            }
            _ => {}
        }
    }

    /// An observed object is gone. It is detached from its owners. If the deletion is proved its
    /// dependents are queued, otherwise the node is queued for verification.
    pub(super) fn object_gone(&mut self, id: NodeId, deletes_prove: DeletesProve, out: &mut Effects) {
        self.demote_to_virtual(id, out);
        if self.store.nodes[id].first_dependent.is_none() {
            self.store.free(id);
        } else if deletes_prove == DeletesProve::Absence {
            self.store.set_presence(id, Presence::Absent);
            out.absent.push(self.store.identity(id));
            self.queue_cascade(id, out);
        } else {
            self.queue(id, out);
        }
    }

    /// Turns an observed node into a virtual one, and queues the owners that it blocked.
    pub(super) fn demote_to_virtual(&mut self, id: NodeId, out: &mut Effects) {
        self.remember_above(id);
        let touched = self.subtract_from_owners(id);
        self.unlink_all(id, out);
        let edges: SmallVec<[EdgeId; 4]> = self.store.owners(id).collect();
        self.store.set_owners(id, std::iter::empty());
        for edge in edges {
            let owner = self.store.edges[edge].owner;
            self.store.remove_edge(edge);
            self.collect_owner(owner, id);
        }
        self.progress.remove(&id);
        self.cycles.leaves(id);
        self.expected.remove(&id);
        self.wake(touched, out);
        self.store.set_presence(id, Presence::Virtual);
        let node = &mut self.store.nodes[id];
        node.version = None;
        node.deletion = DeletionState::Live;
        node.finalizers = Finalizers::default();
        node.held_by_others = false;
        let was_grouped = std::mem::replace(&mut node.role, Role::Single) != Role::Single;
        if was_grouped {
            let uid = self.store.nodes[id].uid.clone();
            self.update_roles(&uid, out);
        }
    }

    /// Applies what a worker has found of an identity, if the node still has the generation that the worker
    /// began with (rules 3.17 to 3.20).
    pub fn verified(
        &mut self,
        identity: &Identity,
        finding: Finding,
        generation: Generation,
        out: &mut Effects,
    ) -> Verification {
        let Some(id) = self.store.find_key(&identity.key()) else { return Verification::Applied };
        let Node { generation: now, presence, .. } = self.store.nodes[id];
        if Generation(now) != generation {
            self.queue(id, out);
            return Verification::Stale;
        }
        match (finding, presence) {
            (Finding::Absent, Presence::Virtual) => return self.virtual_delete(id, identity, out),
            (Finding::Absent, Presence::Observed) if self.store.identity(id) == *identity => {
                self.object_gone(id, DeletesProve::Absence, out);
            }
            (Finding::Absent, _) => self.queue_referring(id, identity, out),
            // After a backoff, the next of the identities that its dependents name is tried.
            (Finding::NotServed, Presence::Virtual) if self.is_served(id) => {
                self.rotate(id);
                return Verification::Retry;
            }
            // The dependents are parked as unresolved. The next catalog queues the owner.
            (Finding::NotServed, Presence::Virtual) => self.queue_dependents(id, out),
            (Finding::NotServed, _) => {}
        }
        Verification::Applied
    }

    /// Whether the type of a node is served at present.
    pub(super) fn is_served(&self, id: NodeId) -> bool {
        let resource = self.store.resource_of(id);
        resource.is_some_and(|resource| self.catalog.resource(&resource.group_resource).is_some())
    }

    fn virtual_delete(&mut self, id: NodeId, identity: &Identity, out: &mut Effects) -> Verification {
        let agreed = self.store.dependents(id).all(|edge| self.refers_to(edge, identity));
        self.queue_referring(id, identity, out);
        out.absent.push(identity.clone());
        if agreed {
            self.store.relocate(id, identity.namespace.as_ref(), &identity.name);
            self.store.set_presence(id, Presence::Absent);
            return Verification::Applied;
        }
        if self.store.identity(id) == *identity {
            self.rotate(id);
        }
        Verification::Retry
    }

    fn queue_referring(&self, id: NodeId, identity: &Identity, out: &mut Effects) {
        for edge in self.store.dependents(id).filter(|&edge| self.refers_to(edge, identity)) {
            self.queue(self.store.edges[edge].dependent, out);
        }
    }

    /// Gives a virtual node the next of the identities that its dependents name, in order, and
    /// the first after the last. They differ in namespace and name only.
    fn rotate(&mut self, id: NodeId) {
        type Coordinates<'a> = (Option<&'a Namespace>, &'a str);
        let current: Coordinates<'_> = (self.store.namespace(id), self.store.name(id));
        let (mut first, mut next) = (None::<Coordinates<'_>>, None::<Coordinates<'_>>);
        for edge in self.store.dependents(id) {
            let coordinates = (self.store.owner_namespace(edge), self.store.reference_name(edge));
            if first.is_none_or(|first| coordinates < first) {
                first = Some(coordinates);
            }
            if coordinates > current && next.is_none_or(|next| coordinates < next) {
                next = Some(coordinates);
            }
        }
        let Some((namespace, name)) = next.or(first).filter(|&coordinates| coordinates != current) else {
            return;
        };
        let (namespace, name) = (namespace.cloned(), Box::<str>::from(name));
        debug_assert!(namespace.is_none() || self.store.resource(id).scope == Scope::Namespaced);
        self.store.relocate(id, namespace.as_ref(), &name);
        self.store.bump(id);
    }
}

impl Partition {
    /// What a deletion at this version proves, given what it would prove without a disturbance.
    fn proof_of_delete(
        &self,
        deletes_prove: DeletesProve,
        version: Option<&ResourceVersion>,
    ) -> DeletesProve {
        if self.disturbance.is_before(version) || mutation::is(Mutation::KeepAbsences) {
            deletes_prove
        } else {
            DeletesProve::Nothing
        }
    }

    /// Watches broke. Absences have to be proved again, and events of earlier writes are no
    /// longer awaited.
    pub fn disturbed(&mut self, disturbance: Disturbance, out: &mut Effects) {
        let is_new = disturbance.number > self.disturbance.number;
        if !is_new && disturbance.number < self.disturbance.number {
            return;
        }
        self.disturbance = disturbance;
        if is_new && !mutation::is(Mutation::KeepAbsences) {
            self.forget_absences(out);
        }
        if is_new {
            self.forget_expected(out);
        }
    }

    /// The number of the latest disturbance.
    pub const fn disturbance(&self) -> u64 {
        self.disturbance.number
    }

    /// Queues a key again because its verdict was reached before the latest disturbance.
    pub fn requeue(&self, key: &Key, out: &mut Effects) {
        if let Some(id) = self.store.find_key(key) {
            self.queue(id, out);
        }
    }

    fn forget_absences(&mut self, out: &mut Effects) {
        let absent: BTreeSet<NodeId> = self.store.absent.iter().copied().collect();
        for id in absent {
            self.store.set_presence(id, Presence::Virtual);
            self.store.formerly_absent.insert(id);
            self.queue(id, out);
        }
    }

    /// An observed object was deleted, by an event or a list of this version. If that was perhaps before
    /// watches broke, nothing follows until the absence is verified.
    pub(super) fn object_gone_at(
        &mut self,
        id: NodeId,
        deletes_prove: DeletesProve,
        version: Option<&ResourceVersion>,
        out: &mut Effects,
    ) {
        let worth = self.proof_of_delete(deletes_prove, version);
        self.object_gone(id, worth, out);
        let is_left = self.store.nodes.get(id).is_some_and(|node| node.presence == Presence::Virtual);
        if worth != deletes_prove && is_left {
            self.store.formerly_absent.insert(id);
        }
    }

    /// A type is proved to be gone since watches broke. So its objects that were gone before
    /// have not come back, and no look-up could prove that any more.
    pub(super) fn confirm_absences(&mut self, type_id: TypeId, out: &mut Effects) {
        let of_type = |id: &NodeId| self.store.nodes[*id].target == Target::Served(type_id);
        let gone: BTreeSet<NodeId> = self.store.formerly_absent.iter().copied().filter(of_type).collect();
        for id in gone {
            self.store.set_presence(id, Presence::Absent);
            out.absent.push(self.store.identity(id));
            self.queue_cascade(id, out);
        }
    }

    fn forget_expected(&mut self, out: &mut Effects) {
        let asked = self.expected.drain().filter(|(_, it)| it.asked);
        let asked: BTreeSet<NodeId> = asked.map(|(id, _)| id).collect();
        for id in asked {
            self.queue(id, out);
        }
    }
}
