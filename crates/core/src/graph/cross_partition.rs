//! Owners in partition 0, dependents elsewhere (rule 3.23).

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::object::Key;

use super::attach::Extent;
use super::keyed::KeyedSet;
use super::node::{EdgeId, NodeId, Presence, Target};
use super::{Effects, Link, Partition, PeerMessage, Sharding};

/// The owners of a node that live in partition 0.
pub(super) type RemoteOwners = SmallVec<[(NodeId, Key); 1]>;

impl Partition {
    /// A node's remote owners, without duplicates. An alias has none: the primary sends the
    /// links.
    pub(super) fn remote_owners(&self, dependent: NodeId) -> RemoteOwners {
        let mut owners = RemoteOwners::new();
        if self.id == Sharding::CLUSTER || self.is_alias(dependent) {
            return owners;
        }
        // There may be thousands: a set keeps this linear.
        let mut seen = BTreeSet::new();
        for (owner, _) in self.remote_references(dependent) {
            if seen.insert(owner) {
                owners.push((owner, self.store.key(owner)));
            }
        }
        owners
    }

    /// A node's references to owners in partition 0, with the owners.
    fn remote_references(&self, dependent: NodeId) -> impl Iterator<Item = (NodeId, EdgeId)> {
        let owned = self.store.owners(dependent).map(|edge| (self.store.edges[edge].owner, edge));
        owned.filter(|&(owner, _)| self.store.nodes[owner].presence == Presence::Remote)
    }

    /// Sends partition 0 the links of a dependent.
    pub(super) fn send_links(&self, dependent: NodeId, out: &mut Effects) {
        if self.id == Sharding::CLUSTER || self.is_alias(dependent) {
            return;
        }
        let mut references: SmallVec<[(NodeId, EdgeId); 4]> = self.remote_references(dependent).collect();
        if references.is_empty() {
            return;
        }
        references.sort_by_key(|&(owner, _)| owner);
        let shared = self.shared_uids(dependent);
        for references in references.chunk_by(|(one, _), (other, _)| one == other) {
            let owner = references[0].0;
            let Some(namespace) = self.store.namespace(dependent).cloned() else { continue };
            let identity = self.store.identity(dependent);
            let link = Link {
                owner: self.store.key(owner),
                resource: identity.resource,
                namespace,
                name: identity.name,
                uid: identity.uid,
                deletion: self.store.nodes[dependent].deletion,
                shares_uid: shared.contains(&self.store.nodes[owner].uid),
                references: references.iter().map(|&(_, edge)| self.store.reference(edge)).collect(),
            };
            out.peers.push((Sharding::CLUSTER, PeerMessage::Link(link)));
        }
    }

    /// Withdraws a node's links to owners that it no longer has.
    pub(super) fn unlink_lost(&self, dependent: NodeId, before: RemoteOwners, out: &mut Effects) {
        if before.is_empty() {
            return;
        }
        let now = self.remote_owners(dependent);
        // The common case.
        if now == before {
            return;
        }
        let mut kept = KeyedSet::with_hasher(self.store.node_hasher);
        kept.extend(now.into_iter().map(|(_, owner)| owner));
        for (_, owner) in before {
            if !kept.contains(&owner) {
                self.send_unlink(dependent, owner, out);
            }
        }
    }

    /// Withdraws all links of a node that is going, or that has become an alias.
    pub(super) fn unlink_all(&self, dependent: NodeId, out: &mut Effects) {
        if self.id == Sharding::CLUSTER {
            return;
        }
        let mut sent = BTreeSet::new();
        for (owner, _) in self.remote_references(dependent) {
            if sent.insert(owner) {
                self.send_unlink(dependent, self.store.key(owner), out);
            }
        }
    }

    /// Withdraws all links to an owner.
    pub(super) fn unlink_dependents(&self, owner: NodeId, out: &mut Effects) {
        for edge in self.store.dependents(owner) {
            self.send_unlink(self.store.edges[edge].dependent, self.store.key(owner), out);
        }
    }

    pub(super) fn send_unlink(&self, dependent: NodeId, owner: Key, out: &mut Effects) {
        let dependent = self.store.key(dependent);
        out.peers.push((Sharding::CLUSTER, PeerMessage::Unlink { dependent, owner }));
    }

    /// Applies a link. The rules are those for a dependent that lives here.
    pub(super) fn link(&mut self, link: &Link, out: &mut Effects) {
        let type_id = self.store.types.find_or_insert(&link.resource);
        let target = Target::Served(type_id);
        let id = self.store.find(&link.uid, target).unwrap_or_else(|| {
            self.store.create(&link.uid, target, Some(&link.namespace), &link.name, Presence::Linked)
        });
        match self.store.nodes[id].presence {
            Presence::Linked => {}
            // A cluster-scoped dependent named it before.
            Presence::InvalidScope => self.store.set_presence(id, Presence::Linked),
            // Its type changed scope: this partition's own monitor is the better source.
            _ => return,
        }
        let touched = self.subtract_from_owners(id);
        if self.store.namespace(id) != Some(&link.namespace) || self.store.name(id) != &*link.name {
            self.store.relocate(id, Some(&link.namespace), &link.name);
        }
        self.store.changed(id);
        let node = &mut self.store.nodes[id];
        node.deletion = link.deletion;
        node.shares_uid = link.shares_uid;
        let owner = self.store.types.find_or_insert(&link.owner.resource);
        let extent = Extent::Link { uid: &link.owner.uid, owner };
        self.set_references(id, &link.references, extent, out);
        self.store.types.release(owner);
        self.add_to_owners(id, touched, out);
        self.collect(id);
    }

    /// Applies the withdrawal of a link.
    pub(super) fn unlink(&mut self, dependent: &Key, owner: &Key, out: &mut Effects) {
        let Some(id) = self.store.find_key(dependent) else { return };
        let Some(owner_type) = self.store.types.find(&owner.resource.group_resource) else { return };
        if self.store.nodes[id].presence != Presence::Linked {
            return;
        }
        let touched = self.subtract_from_owners(id);
        self.set_references(id, &[], Extent::Link { uid: &owner.uid, owner: owner_type }, out);
        self.add_to_owners(id, touched, out);
        self.collect(id);
    }
}
