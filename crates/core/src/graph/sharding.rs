//! Which partition an object's node lives in.

use std::hash::BuildHasher;
use std::num::NonZeroU16;

use crate::object::{HashSeed, Namespace};

use super::PartitionId;
use super::keyed::Purpose;

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
    #[must_use]
    pub const fn new(namespaced: NonZeroU16, seed: HashSeed) -> Self {
        Self { namespaced, seed }
    }

    /// The seed of the partitions' hash tables.
    pub(super) const fn seed(&self) -> HashSeed {
        self.seed
    }

    /// The number of partitions, partition 0 included.
    #[must_use]
    pub const fn count(&self) -> u16 {
        // At the maximum, one partition is left out.
        self.namespaced.get().saturating_add(1)
    }

    /// The partition of objects in this namespace, or of cluster-scoped ones.
    #[must_use]
    pub fn of(&self, namespace: Option<&Namespace>) -> PartitionId {
        namespace.map_or(Self::CLUSTER, |namespace| {
            let hash = Purpose::Partitions.hasher(self.seed).hash_one(namespace.as_str());
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
