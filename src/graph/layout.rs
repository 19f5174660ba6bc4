//! Which partition an object's node lives in.

use std::num::NonZeroU16;

use crate::object::Namespace;

use super::PartitionId;

/// How namespaces are spread over partitions.
///
/// Cluster-scoped objects live in partition 0, all others in one of 1..=n by
/// their namespace: owner and dependent are then nearly always together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    namespaced: NonZeroU16,
}

impl Layout {
    /// The partition of cluster-scoped objects.
    pub const CLUSTER: PartitionId = PartitionId(0);

    /// A layout with this many partitions for namespaced objects.
    #[must_use]
    pub const fn new(namespaced: NonZeroU16) -> Self {
        Self { namespaced }
    }

    /// The number of partitions, with that of the cluster-scoped objects.
    #[must_use]
    pub const fn count(&self) -> u16 {
        // At the very limit the last partition is left out.
        self.namespaced.get().saturating_add(1)
    }

    /// The partition of objects in this namespace, or of cluster-scoped ones.
    #[must_use]
    pub fn of(&self, namespace: Option<&Namespace>) -> PartitionId {
        namespace.map_or(Self::CLUSTER, |namespace| {
            let slot = stable_hash(namespace.as_str()) % u64::from(self.count() - 1);
            // The remainder is less than a u16.
            PartitionId(slot as u16 + 1)
        })
    }

    /// All partitions, in order.
    pub fn all(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.count()).map(PartitionId)
    }
}

/// FNV-1a, then splitmix64's finalizer: FNV alone hardly moves the high bits for
/// names that differ at the end, and `team-00..99` would share a partition.
fn stable_hash(text: &str) -> u64 {
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_namespaces_spread_over_all_partitions() {
        let layout = Layout::new(NonZeroU16::new(16).unwrap());
        let mut counts = [0; 17];
        for team in 0..100 {
            let namespace = Namespace::parse(&format!("team-{team:02}"));
            counts[usize::from(layout.of(namespace.as_ref()).0)] += 1;
        }
        assert_eq!(counts[0], 0, "no namespace lives with the cluster-scoped objects");
        assert!(counts[1..].iter().all(|&count| (1..=14).contains(&count)), "{counts:?}");
    }

    #[test]
    fn the_place_of_a_namespace_never_moves() {
        let layout = Layout::new(NonZeroU16::new(16).unwrap());
        assert_eq!(
            layout.of(Namespace::parse("default").as_ref()),
            layout.of(Namespace::parse("default").as_ref())
        );
        assert_eq!(layout.of(None), Layout::CLUSTER);
        assert_eq!(layout.all().count(), usize::from(layout.count()));
        assert_eq!(Layout::new(NonZeroU16::MAX).count(), u16::MAX);
    }
}
