//! Digests that stand for values from the cluster in caches.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::LazyLock;

/// Drawn once for each process, so that nobody can find two values with the same digest.
static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// 128 bits that stand for a value of any length.
///
/// A name or uid in an owner reference may be as long as an object. A cache that keeps digests is
/// bounded in bytes by the number of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u64; 2]);

impl Digest {
    /// The digest of a value.
    pub fn of(value: &(impl Hash + ?Sized)) -> Self {
        Self(KEYS.each_ref().map(|key| key.hash_one(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Uid, config_map};

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
