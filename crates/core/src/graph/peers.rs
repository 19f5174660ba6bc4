//! Which partition an object lives in, and owners in partition 0 with dependents elsewhere
//! (rule 3.23).

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::num::NonZeroU16;

use smallvec::SmallVec;

use super::attach::Extent;
use super::node::{EdgeId, NodeId, Presence, Target};
use super::{Effects, Link, Partition, PartitionId};
use crate::object::{HashSeed, Identity, Key, Keyed, KeyedSet, Namespace, OwnerReference};

/// How objects are distributed over partitions.
///
/// Cluster-scoped objects live in partition 0, all others in one of 1..=n, chosen by a hash of
/// the namespace. So an owner and its dependent are nearly always in the same partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    namespaced: NonZeroU16,
    seed: HashSeed,
}

impl Sharding {
    /// The partition of cluster-scoped objects.
    pub const CLUSTER: PartitionId = PartitionId(0);

    /// Shards namespaced objects over this many partitions. The partition of a namespace depends
    /// on the seed, so that a tenant cannot choose a name that shares a partition, and its
    /// thread, with a victim. The partitions' hash tables use the same seed.
    pub const fn new(namespaced: NonZeroU16, seed: HashSeed) -> Self {
        Self { namespaced, seed }
    }

    /// The hasher of the partitions' tables. It differs from the one that places namespaces.
    pub(super) fn hasher(&self) -> Keyed {
        self.seed.keyed(2)
    }

    /// The number of partitions, partition 0 included.
    pub const fn count(&self) -> u16 {
        // At the maximum, one partition is left out.
        self.namespaced.get().saturating_add(1)
    }

    /// The partition of objects in this namespace, or of cluster-scoped ones.
    pub fn of(&self, namespace: Option<&Namespace>) -> PartitionId {
        namespace.map_or(Self::CLUSTER, |namespace| {
            let hash = self.seed.keyed(1).hash_one(namespace.as_str());
            let slot = hash % u64::from(self.count() - 1);
            // The remainder is less than a u16.
            PartitionId(slot as u16 + 1)
        })
    }

    /// All partitions, in order.
    pub fn all(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.count()).map(PartitionId)
    }
}

/// The owners of a node that live in partition 0.
pub(super) type RemoteOwners = SmallVec<[(NodeId, Key); 1]>;

impl Partition {
    /// The remote owners that a node has links to. An alias has none: the primary sends the links.
    pub(super) fn remote_owners(&self, dependent: NodeId) -> RemoteOwners {
        if self.is_alias(dependent) { RemoteOwners::new() } else { self.named_remotely(dependent) }
    }

    /// The remote owners that a node names, without duplicates.
    fn named_remotely(&self, dependent: NodeId) -> RemoteOwners {
        // There may be thousands: a set keeps this linear.
        let mut seen = BTreeSet::new();
        let new = self.remote_references(dependent).filter(|&(owner, _)| seen.insert(owner));
        new.map(|(owner, _)| (owner, self.store.key(owner))).collect()
    }

    /// A node's references to owners in partition 0, with the owners.
    fn remote_references(&self, dependent: NodeId) -> impl Iterator<Item = (NodeId, EdgeId)> {
        let owned = self.store.owners(dependent).map(|edge| (self.store.edges[edge].owner, edge));
        owned.filter(|&(owner, _)| self.store.nodes[owner].presence == Presence::Remote)
    }

    /// Sends partition 0 the links of a dependent.
    pub(super) fn send_links(&self, dependent: NodeId, out: &mut Effects) {
        if self.is_alias(dependent) {
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
            let shares_uid = shared.contains(&self.store.nodes[owner].uid);
            let references = references.iter().map(|&(_, edge)| self.store.reference(edge)).collect();
            self.send_link(dependent, self.store.key(owner), references, shares_uid, out);
        }
    }

    fn send_link(
        &self,
        dependent: NodeId,
        owner: Key,
        references: Vec<OwnerReference>,
        shares_uid: bool,
        out: &mut Effects,
    ) {
        let deletion = self.store.nodes[dependent].deletion;
        let dependent = self.store.identity(dependent);
        out.links.push(Link { owner, dependent, deletion, shares_uid, references });
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
        let mut kept = KeyedSet::with_hasher(self.store.hasher);
        kept.extend(now.into_iter().map(|(_, owner)| owner));
        for (_, owner) in before {
            if !kept.contains(&owner) {
                self.send_link(dependent, owner, Vec::new(), false, out);
            }
        }
    }

    /// Withdraws all links of a node that is going, or that has become an alias.
    pub(super) fn unlink_all(&self, dependent: NodeId, out: &mut Effects) {
        for (_, owner) in self.named_remotely(dependent) {
            self.send_link(dependent, owner, Vec::new(), false, out);
        }
    }

    /// Withdraws all links to an owner.
    pub(super) fn unlink_dependents(&self, owner: NodeId, out: &mut Effects) {
        for edge in self.store.dependents(owner) {
            let dependent = self.store.edges[edge].dependent;
            self.send_link(dependent, self.store.key(owner), Vec::new(), false, out);
        }
    }

    /// Applies a link of another partition. The rules are those for a dependent that lives here.
    pub fn receive(&mut self, link: &Link, out: &mut Effects) {
        let Identity { resource, namespace, name, uid } = &link.dependent;
        let known = self.store.find_key(&link.dependent.key());
        let is_linked = known.is_some_and(|id| self.store.nodes[id].presence == Presence::Linked);
        if link.references.is_empty() && !is_linked {
            return;
        }
        let type_id = self.store.types.find_or_insert(resource);
        let target = Target::Served(type_id);
        let id = self
            .store
            .find(uid, target)
            .unwrap_or_else(|| self.store.create(uid, target, namespace.as_ref(), name, Presence::Linked));
        match self.store.nodes[id].presence {
            Presence::Linked => {}
            // A cluster-scoped dependent named it before.
            Presence::InvalidScope => self.store.set_presence(id, Presence::Linked),
            // Its type changed scope: this partition's own monitor is the better source.
            _ => return,
        }
        let touched = self.subtract_from_owners(id);
        if self.store.namespace(id) != namespace.as_ref() || self.store.name(id) != &**name {
            self.store.relocate(id, namespace.as_ref(), name);
        }
        let node = &mut self.store.nodes[id];
        node.deletion = link.deletion;
        if !link.references.is_empty() {
            node.shares_uid = link.shares_uid;
        }
        let owner = self.store.types.find_or_insert(&link.owner.resource);
        let extent = Extent::Link { uid: &link.owner.uid, owner };
        self.set_references(id, &link.references, extent, out);
        // It may have gone with its last node.
        if let Some(owner) = self.store.types.find(&link.owner.resource.group_resource) {
            self.store.types.release(owner);
        }
        self.add_to_owners(id, touched, out);
        self.collect(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_namespaces_spread_over_all_partitions() {
        let sharding = Sharding::new(NonZeroU16::new(16).unwrap(), HashSeed::new(1));
        let mut counts = [0; 17];
        for team in 0..100 {
            let namespace = Namespace::parse(&format!("team-{team:02}"));
            counts[usize::from(sharding.of(namespace.as_ref()).0)] += 1;
        }
        assert_eq!(counts[0], 0, "no namespace lives with the cluster-scoped objects");
        assert!(counts[1..].iter().all(|&count| (1..=14).contains(&count)), "{counts:?}");
    }

    #[test]
    fn the_partition_of_a_namespace_is_unpredictable() {
        let place = |name: &str, seed: u64| {
            let sharding = Sharding::new(NonZeroU16::new(16).unwrap(), HashSeed::new(seed));
            sharding.of(Namespace::parse(name).as_ref())
        };
        let shared = (0..160).filter(|&seed| place("tenant", seed) == place("victim", seed)).count();
        assert!((1..=30).contains(&shared), "in {shared} of 160 processes");
    }

    #[test]
    fn the_partition_of_a_namespace_never_changes() {
        let sharding = Sharding::new(NonZeroU16::new(16).unwrap(), HashSeed::new(1));
        assert_eq!(
            sharding.of(Namespace::parse("default").as_ref()),
            sharding.of(Namespace::parse("default").as_ref())
        );
        assert_eq!(sharding.of(None), Sharding::CLUSTER);
        assert_eq!(sharding.all().count(), usize::from(sharding.count()));
        assert_eq!(Sharding::new(NonZeroU16::MAX, HashSeed::new(1)).count(), u16::MAX);
    }
}
