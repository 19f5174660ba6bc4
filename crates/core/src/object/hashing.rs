//! Hash functions for data from the cluster.
//!
//! Users who may create objects choose names, kinds and the uids in references. With a hash that
//! they can compute, they can choose values that all collide. So every table is keyed by a secret
//! [`HashSeed`], and the hash is SipHash-1-3, a pseudorandom function: no value has a known hash,
//! whatever the seed.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

use hashbrown::{HashMap, HashSet};
use siphasher::sip::SipHasher13;

/// The secret seed of all hashes of a process. It comes from the system's random source, except in
/// tests and simulations, which have to be repeatable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(u64);

impl HashSeed {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The hasher for keys of any kind. Each purpose has its own number, so that the hash by which
    /// something is chosen says nothing about its place in the tables.
    pub fn keyed(self, purpose: u64) -> Keyed {
        let draw = |number: u64| Keyed { k0: self.0, k1: purpose }.hash_one(number);
        Keyed { k0: draw(0), k1: draw(1) }
    }
}

impl fmt::Debug for HashSeed {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

/// Hashes keys of any kind. The standard library's SipHash cannot be given a key.
#[derive(Clone, Copy)]
pub struct Keyed {
    k0: u64,
    k1: u64,
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.k0, self.k1)
    }
}

impl fmt::Debug for Keyed {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyed(..)")
    }
}

/// A map with a secret hash key. No decision depends on its order.
pub(crate) type KeyedMap<K, V> = HashMap<K, V, Keyed>;
/// A set with a secret hash key. No decision depends on its order.
pub(crate) type KeyedSet<K> = HashSet<K, Keyed>;

/// The keys of [`Digest`]s, drawn once for each process, so that nobody can find two values with
/// the same digest.
static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// 128 bits that stand for a value of any length.
///
/// A name or uid in an owner reference may be as long as an object. A cache that keeps digests is
/// bounded in bytes by the number of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u64; 2]);

impl Digest {
    pub fn of(value: &(impl Hash + ?Sized)) -> Self {
        Self(KEYS.each_ref().map(|key| key.hash_one(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Uid, config_map};

    #[test]
    fn another_seed_gives_another_hash() {
        let (one, other) = (HashSeed::new(1), HashSeed::new(2));
        assert_eq!(one.keyed(0).hash_one("a"), HashSeed::new(1).keyed(0).hash_one("a"));
        assert_ne!(one.keyed(0).hash_one("a"), other.keyed(0).hash_one("a"));
        assert_ne!(one.keyed(0).hash_one("a"), one.keyed(1).hash_one("a"));
        assert_eq!(format!("{one:?}"), "HashSeed(..)", "the seed is secret");
    }

    /// Rule 7.9.
    #[test]
    fn a_digest_is_small_and_differs_with_each_part_of_an_identity() {
        assert_eq!(size_of::<Digest>(), 16);
        let long = "u".repeat(1 << 20);
        let of = |namespace, name, uid: &str| Digest::of(&config_map(namespace, name, uid));
        assert_eq!(of("a", "b", &long), of("a", "b", &long));
        for other in [of("b", "b", &long), of("a", "c", &long), of("a", "b", &long[1..])] {
            assert_ne!(of("a", "b", &long), other);
        }
        let uid = Digest::of(&Uid::parse("u"));
        assert_ne!(uid.0[0], uid.0[1], "the halves have keys of their own");
    }
}
