//! Hash functions for data from the cluster.
//!
//! Users who may create objects choose names, kinds and the uids in references. With a hash that
//! they can compute, they can choose values that all collide. So every table is keyed by a secret
//! [`HashSeed`].
//!
//! A seed alone is not enough. In a hash that consists of one folded multiplication, a factor
//! that equals its constant makes the product zero, whatever the seed. There are two hashes here:
//!
//! - [`Keyed`] is SipHash-1-3, a pseudorandom function, for keys of any kind.
//! - [`UidHasher`] is for the uids of a million nodes, where SipHash would be too slow. It is
//!   strongly universal (multilinear, in 128 bits): any two uids that were chosen without the
//!   seed collide as rarely as two random ones.

use std::hash::{BuildHasher, Hasher};

use super::Uid;

/// The secret seed of all hashes of a process. It comes from the system's random source, except in
/// tests and simulations, which have to be repeatable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(u64);

impl HashSeed {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The hasher for keys of any kind. Each purpose has its own number, so that tables have
    /// different orders.
    #[must_use]
    pub fn keyed(self, purpose: u64) -> Keyed {
        let draw = |number: u64| Keyed { k0: self.0, k1: purpose }.hash_one(number);
        Keyed { k0: draw(0), k1: draw(1) }
    }

    /// The hasher for uids.
    #[must_use]
    pub fn uids(self) -> UidHasher {
        let texts = self.keyed(u64::MAX);
        let draw = |number: u64| {
            u128::from(texts.hash_one(2 * number)) << 64 | u128::from(texts.hash_one(2 * number + 1))
        };
        UidHasher { factors: [draw(1), draw(2), draw(3)], constant: draw(0), texts }
    }
}

impl std::fmt::Debug for HashSeed {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

/// Hashes uids; the module says how.
#[derive(Clone, Copy)]
pub struct UidHasher {
    factors: [u128; 3],
    constant: u128,
    texts: Keyed,
}

impl UidHasher {
    /// The hash of a uid.
    #[must_use]
    pub fn hash(&self, uid: &Uid) -> u64 {
        mix(self.sum(uid))
    }

    /// The hash of a uid in a role.
    #[must_use]
    pub fn hash_as(&self, uid: &Uid, role: u64) -> u64 {
        mix(self.sum(uid).wrapping_add(self.factors[2].wrapping_mul(role.into())))
    }

    fn sum(&self, uid: &Uid) -> u128 {
        let (high, low) = match uid.halves() {
            Ok(halves) => halves,
            Err(text) => (self.texts.hash_one(text), 0),
        };
        let [first, second, _] = self.factors;
        let products = first.wrapping_mul(high.into()).wrapping_add(second.wrapping_mul(low.into()));
        self.constant.wrapping_add(products)
    }
}

impl std::fmt::Debug for UidHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UidHasher(..)")
    }
}

/// The upper half is the strongly universal part. The rest is a bijection, which preserves that
/// and breaks up the patterns of evenly spaced uids.
const fn mix(sum: u128) -> u64 {
    let mut hash = (sum >> 64) as u64;
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// Hashes keys of any kind by SipHash-1-3.
#[derive(Clone, Copy)]
pub struct Keyed {
    k0: u64,
    k1: u64,
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        let Self { k0, k1 } = *self;
        KeyedHasher {
            state: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
            pending: 0,
            filled: 0,
            length: 0,
        }
    }
}

impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keyed(..)")
    }
}

/// SipHash-1-3: one round per eight bytes, three at the end. The standard library's cannot be
/// given a key.
#[derive(Clone)]
pub struct KeyedHasher {
    state: [u64; 4],
    /// Up to seven bytes that are not compressed yet, the first one lowest.
    pending: u64,
    filled: u32,
    /// The total number of bytes.
    length: u64,
}

impl KeyedHasher {
    fn round(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.state;
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v0;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.wrapping_add(v3);
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(17) ^ v2;
        v2 = v2.rotate_left(32);
        self.state = [v0, v1, v2, v3];
    }

    fn compress(&mut self, word: u64) {
        self.state[3] ^= word;
        self.round();
        self.state[0] ^= word;
    }

    /// Takes in up to eight bytes, the first one lowest.
    fn take(&mut self, bytes: u64, count: u32) {
        self.length = self.length.wrapping_add(count.into());
        self.pending |= bytes << (8 * self.filled);
        let filled = self.filled + count;
        if filled < 8 {
            self.filled = filled;
            return;
        }
        self.compress(self.pending);
        self.pending = if self.filled == 0 { 0 } else { bytes >> (64 - 8 * self.filled) };
        self.filled = filled - 8;
    }
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        if self.filled == 0 {
            self.length = self.length.wrapping_add(8 * words.len() as u64);
            words.iter().for_each(|word| self.compress(u64::from_le_bytes(*word)));
        } else {
            words.iter().for_each(|word| self.take(u64::from_le_bytes(*word), 8));
        }
        if !rest.is_empty() {
            let word = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            self.take(word, rest.len() as u32);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.take(number.into(), 1);
    }

    fn write_u32(&mut self, number: u32) {
        self.take(number.into(), 4);
    }

    fn write_u64(&mut self, number: u64) {
        self.take(number, 8);
    }

    fn finish(&self) -> u64 {
        let mut end = self.clone();
        end.compress(self.length << 56 | self.pending);
        end.state[2] ^= 0xff;
        (0..3).for_each(|_| end.round());
        end.state.into_iter().fold(0, |hash, word| hash ^ word)
    }
}

impl std::fmt::Debug for KeyedHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyedHasher(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::hash::DefaultHasher;

    use super::*;
    use crate::object::crafted;

    #[test]
    fn the_hash_is_the_standard_librarys_siphash_with_a_key() {
        let text: Vec<u8> = (0..200_u8).collect();
        for length in 0..text.len() {
            let (mut ours, mut theirs) = (Keyed { k0: 0, k1: 0 }.build_hasher(), DefaultHasher::new());
            for hasher in [&mut ours as &mut dyn Hasher, &mut theirs] {
                hasher.write(&text[..length]);
                hasher.write_u8(7);
                hasher.write_u32(77);
                hasher.write(&text[length..]);
                hasher.write_u64(7777);
            }
            assert_eq!(ours.finish(), theirs.finish(), "{length}");
        }
    }

    #[test]
    fn another_seed_gives_another_hash() {
        let uid = Uid::parse("082efa98-ec4e-6c89-0000-000000000001").unwrap();
        let (one, other) = (HashSeed::new(1), HashSeed::new(2));
        assert_ne!(one.uids().hash(&uid), other.uids().hash(&uid));
        assert_eq!(one.uids().hash(&uid), HashSeed::new(1).uids().hash(&uid));
        assert_ne!(one.uids().hash_as(&uid, 1), one.uids().hash_as(&uid, 2));
        assert_ne!(one.keyed(0).hash_one("a"), other.keyed(0).hash_one("a"));
        assert_ne!(one.keyed(0).hash_one("a"), one.keyed(1).hash_one("a"));
        assert_eq!(format!("{one:?}"), "HashSeed(..)", "the seed is secret");
    }

    /// The fullest of 2^14 places, by either end of the hash, holds as much as with random uids.
    #[test]
    fn crafted_uids_spread_like_random_uids() {
        const COUNT: u64 = 1 << 16;
        let fullest = |make: fn(u64) -> String, seed: u64| {
            let hasher = HashSeed::new(seed).uids();
            let (mut low, mut high) = (BTreeMap::new(), BTreeMap::new());
            for number in 0..COUNT {
                let hash = hasher.hash(&Uid::parse(&make(number)).unwrap());
                *low.entry(hash % (1 << 14)).or_insert(0) += 1;
                *high.entry(hash >> 50).or_insert(0) += 1;
            }
            low.into_values().chain(high.into_values()).max().unwrap_or(0)
        };
        for seed in 0..3 {
            let usual = fullest(crafted::random, seed);
            for (family, make) in crafted::FAMILIES {
                let most = fullest(make, seed);
                assert!(most <= 2 * usual, "{family}: {most} in one place, random ones {usual}");
            }
        }
    }
}
