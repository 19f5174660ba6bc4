//! Ids and names by their endings.
//!
//! Runtimes give items random ids, so most of them differ in their last characters already. To look
//! at these takes a tenth of the time of a hash that nobody can predict. Such a hash is taken only
//! where the endings do not suffice, so ids that somebody chose cost time and change no answer.
//!
//! Texts that are equal have to be compared to their end. Some C libraries do that a byte at a time,
//! which takes longer than the rest of a lookup, so maps with many lookups have keys of types of their
//! own.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};

use hashbrown::{Equivalent, HashMap};
use kube_gc_core::object::{HashSeed, Keyed};

/// A map with keys of its own.
pub(crate) type IdMap<V> = HashMap<IdBuf, V, Keyed>;

/// A hash that nobody can predict.
pub(crate) fn hasher() -> Keyed {
    HashSeed::new(RandomState::new().hash_one(0)).keyed(0)
}

/// An id, a name or a reference as the key of a map.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct Id<'a>(pub &'a str);

/// The same in a map that keeps its keys. It is looked up by an [`Id`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdBuf(Box<str>);

impl PartialEq for Id<'_> {
    fn eq(&self, other: &Self) -> bool {
        is_same(self.0, other.0)
    }
}

impl Hash for Id<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl IdBuf {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    pub(crate) const fn as_str(&self) -> &str {
        &self.0
    }
}

impl Equivalent<IdBuf> for Id<'_> {
    fn equivalent(&self, key: &IdBuf) -> bool {
        is_same(self.0, &key.0)
    }
}

/// Whether two texts are equal. It compares eight bytes at a time, the last ones first.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let ((words, rest), (other_words, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
        // What is left of the words is in these eight bytes, too.
        (Some(last), Some(other)) => {
            last == other && words.iter().zip(other_words).all(|(one, other)| one == other)
        }
        _ => rest.iter().zip(other_rest).all(|(one, other)| one == other),
    }
}

/// A number that depends on the last eight bytes and the length. Equal texts have equal ones.
#[must_use]
pub(crate) fn ending(text: &str) -> usize {
    let bytes = text.as_bytes();
    let last = match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    // The upper half of the product depends on each of these bytes.
    let product = (last ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> 32) as usize
}

/// What occurs more than once.
pub(crate) fn duplicates<'a>(ids: impl ExactSizeIterator<Item = &'a str> + Clone) -> HashSet<&'a str> {
    // Enough places that few different ids share one by chance.
    let mut endings = vec![0_u8; (16 * ids.len()).next_power_of_two()];
    let place = endings.len() - 1;
    for id in ids.clone() {
        let count = &mut endings[ending(id) & place];
        *count = count.saturating_add(1);
    }
    let mut seen = HashSet::new();
    ids.filter(|id| endings[ending(id) & place] > 1 && !seen.insert(*id)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_the_same_if_they_are_equal(one in "[ab]{0,40}", other in "[ab]{0,40}", at in 0..40_usize) {
            prop_assert_eq!(is_same(&one, &other), one == other);
            prop_assert!(is_same(&one, &one.clone()));
            let mut changed = one.clone().into_bytes();
            if let Some(byte) = changed.get_mut(at) {
                *byte = b'c';
                let changed = String::from_utf8(changed).unwrap();
                prop_assert!(!is_same(&one, &changed) && !is_same(&changed, &one));
            }
        }

        #[test]
        fn duplicates_are_those_that_are_there_twice(ids in prop::collection::vec("[ab]{0,3}(ccccccccc)?", 0..40)) {
            let expected: HashSet<&str> = ids
                .iter()
                .map(String::as_str)
                .filter(|id| ids.iter().filter(|other| other == id).count() > 1)
                .collect();
            prop_assert_eq!(duplicates(ids.iter().map(String::as_str)), expected);
        }
    }

    #[test]
    fn a_thousand_ids_with_one_ending_are_told_apart() {
        let mut ids: Vec<String> = (0..1000).map(|number| format!("{number:04}-the-same-ending")).collect();
        ids.push("0007-the-same-ending".to_owned());
        let found = duplicates(ids.iter().map(String::as_str));
        assert_eq!(found, HashSet::from(["0007-the-same-ending"]));
    }
}
