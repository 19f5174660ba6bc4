//! Finds arena slots by a hash of their contents.

use hashbrown::HashTable;

use super::arena::{Id, is_sparse};

/// The number of tables. A table is rehashed as a whole when it grows or shrinks. With a
/// million nodes in a single table, everything would wait for a tenth of a second.
const TABLES: usize = 64;

/// A hash table in parts that grow and shrink independently.
#[derive(Debug)]
pub(super) struct Index<T>(Vec<HashTable<Id<T>>>);

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self((0..TABLES).map(|_| HashTable::new()).collect())
    }
}

/// Selects the part by bits in the middle of the hash, because the tables use both ends.
///
/// The last part gets twice the share of the first, so that the parts double their capacity one
/// after another. If all did at once, more than half of the capacity would be unused then.
const fn part(hash: u64) -> usize {
    let middle = (hash >> 24) as usize;
    let (one, other) = (middle % TABLES, middle / TABLES % TABLES);
    let is_third = (middle / (TABLES * TABLES)).is_multiple_of(3);
    if is_third && other > one { other } else { one }
}

impl<T> Index<T> {
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(&Id<T>) -> bool) -> Option<Id<T>> {
        let is = |id: &Id<T>| {
            #[cfg(test)]
            crate::object::steps::count();
            is(id)
        };
        self.0[part(hash)].find(hash, is).copied()
    }

    /// All slots with this hash, and perhaps some others.
    pub(super) fn with_hash(&self, hash: u64) -> impl Iterator<Item = Id<T>> {
        self.0[part(hash)].iter_hash(hash).copied().inspect(|_| {
            #[cfg(test)]
            crate::object::steps::count();
        })
    }

    /// Adds a slot. `hash_of` gives the hash of any slot in the table.
    pub(super) fn insert(&mut self, hash: u64, id: Id<T>, hash_of: impl Fn(&Id<T>) -> u64) {
        self.0[part(hash)].insert_unique(hash, id, hash_of);
    }

    pub(super) fn remove(&mut self, hash: u64, id: Id<T>, hash_of: impl Fn(&Id<T>) -> u64) {
        let table = &mut self.0[part(hash)];
        let is = |&other: &Id<T>| {
            #[cfg(test)]
            crate::object::steps::count();
            other == id
        };
        if let Ok(entry) = table.find_entry(hash, is) {
            entry.remove();
        }
        if is_sparse(table.len(), table.capacity()) {
            table.shrink_to(table.len() * 2, hash_of);
        }
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(HashTable::len).sum()
    }

    /// The memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(HashTable::allocation_size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::Arena;
    use super::*;
    use crate::object::HashSeed;
    use std::hash::BuildHasher as _;

    fn hash_of(value: &u32) -> u64 {
        HashSeed::new(1).keyed(0).hash_one(value)
    }

    #[test]
    fn the_index_finds_its_entries_and_frees_unused_memory() {
        let mut arena = Arena::default();
        let ids: Vec<Id<u32>> = (0..20_000).map(|number| arena.insert(number)).collect();
        let hash = |&id: &Id<u32>| hash_of(&arena[id]);
        let mut index = Index::default();
        for &id in &ids {
            index.insert(hash(&id), id, hash);
        }
        let full = index.bytes();
        let (gone, left) = ids.split_at(19_000);
        for &id in gone {
            index.remove(hash(&id), id, hash);
        }
        assert_eq!(index.len(), left.len());
        assert!(index.bytes() < full / 4, "{} of {full} bytes", index.bytes());
        for &id in &ids {
            let is_left = left.contains(&id);
            assert_eq!(index.find(hash(&id), |&other| other == id), is_left.then_some(id));
            assert_eq!(index.with_hash(hash(&id)).any(|other| other == id), is_left);
        }
    }

    #[test]
    fn every_part_gets_its_share() {
        let mut counts = [0_usize; TABLES];
        for number in 0..640_000_u32 {
            counts[part(hash_of(&number))] += 1;
        }
        for (part, &count) in counts.iter().enumerate() {
            let share = 10_000 * (2 * TABLES + 2 * part) / (3 * TABLES);
            assert!(count.abs_diff(share) < 500, "{share} expected in {part}: {counts:?}");
        }
    }

    #[test]
    fn the_unused_share_is_independent_of_the_size() {
        let mut arena = Arena::default();
        let mut index = Index::default();
        for number in 1..200_000_u32 {
            let id = arena.insert(number);
            let hash = |&id: &Id<u32>| hash_of(&arena[id]);
            index.insert(hash(&id), id, hash);
            if number > 20_000 && number % 1000 == 0 {
                let each = index.bytes() as f64 / f64::from(number);
                assert!(each < 9.0, "{each} bytes each for {number}");
            }
        }
    }
}
