//! Hash tables whose order cannot be predicted from outside.

use hashbrown::{HashMap, HashSet};

use crate::object::{HashSeed, Keyed};

/// A map with a secret hash key. No decision depends on its order.
pub(super) type KeyedMap<K, V> = HashMap<K, V, Keyed>;
/// A set with a secret hash key. No decision depends on its order.
pub(super) type KeyedSet<K> = HashSet<K, Keyed>;

/// What a table of the graph is for. Each purpose has a hash function of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Partitions = 1,
    Namespaces,
    ReferenceTypes,
    Types,
    Nodes,
    Edges,
    Followers,
}

impl Purpose {
    pub(super) fn hasher(self, seed: HashSeed) -> Keyed {
        seed.keyed(self as u64)
    }
}
