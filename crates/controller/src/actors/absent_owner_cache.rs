//! Owners that were proved absent, and owners whose dependents were orphaned. All workers share
//! them.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;

use kube_gc_client::AbsenceProof;
use kube_gc_core::object::{Digest, Identity};

/// What is known of a bounded number of identities, or of pairs of them. Forgets the least recently used
/// ones.
///
/// Workers read it, and both workers and partitions write it. A lost entry only costs a request.
/// It keeps [digests](Digest), because a reference may name an owner by a megabyte of text.
#[derive(Debug)]
pub struct IdentityCache<P = ()> {
    /// The last use of each, and what is known of it.
    entries: DashMap<Digest, (AtomicU64, P)>,
    capacity: usize,
    clock: AtomicU64,
}

impl<P: Clone> IdentityCache<P> {
    /// A cache for at most `capacity` identities (plus an eighth, so that
    /// forgetting is done in batches).
    pub fn new(capacity: usize) -> Self {
        Self { entries: DashMap::new(), capacity, clock: AtomicU64::new(0) }
    }

    pub fn remember(&self, identity: &impl Hash, known: P) {
        let now = self.tick();
        self.entries.insert(Digest::of(identity), (AtomicU64::new(now), known));
        if self.entries.len() > self.capacity + self.capacity / 8 {
            self.shrink();
        }
    }

    /// What is known of an identity. The call counts as a use.
    pub fn get(&self, identity: &impl Hash) -> Option<P> {
        let now = self.tick();
        let entry = self.entries.get(&Digest::of(identity))?;
        entry.0.store(now, Ordering::Relaxed);
        Some(entry.1.clone())
    }

    /// Whether the cache has the identity. The call counts as a use.
    pub fn contains(&self, identity: &Identity) -> bool {
        self.get(identity).is_some()
    }

    pub fn forget(&self, identity: &Identity) {
        self.entries.remove(&Digest::of(identity));
    }

    /// Removes everything: after a restore of the store, earlier proofs are void.
    pub fn clear(&self) {
        self.entries.clear();
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn shrink(&self) {
        let mut uses: Vec<u64> = self.entries.iter().map(|entry| entry.0.load(Ordering::Relaxed)).collect();
        let surplus = uses.len().saturating_sub(self.capacity);
        if surplus == 0 {
            return;
        }
        uses.sort_unstable();
        let oldest: HashSet<u64> = uses.into_iter().take(surplus).collect();
        self.entries.retain(|_, (used, _)| !oldest.contains(&used.load(Ordering::Relaxed)));
    }
}

/// The caches that the workers of both pools share.
#[derive(Debug)]
pub struct AbsentOwnerCache {
    /// Identities proved absent (500 in kube-controller-manager).
    pub absent: IdentityCache<AbsenceProof>,
    /// Owners whose orphan finalizer was removed. A dependent that shows up late loses its
    /// reference instead of being deleted (kubernetes#26120).
    pub orphaned: IdentityCache,
}

impl AbsentOwnerCache {
    /// Both caches with the same capacity.
    pub fn new(capacity: usize) -> Self {
        Self { absent: IdentityCache::new(capacity), orphaned: IdentityCache::new(capacity) }
    }

    pub fn clear(&self) {
        let Self { absent, orphaned } = self;
        absent.clear();
        orphaned.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_core::object::config_map;

    fn identity(name: &str) -> Identity {
        config_map("a", name, "u")
    }

    /// Rule 7.2.
    #[test]
    fn absence_belongs_to_an_identity_and_not_to_a_uid() {
        let cache = IdentityCache::new(10);
        cache.remember(&identity("a"), ());
        assert!(cache.contains(&identity("a")));
        assert!(!cache.contains(&identity("b")), "same uid, other name: not proved");
    }

    /// Rule 7.1.
    #[test]
    fn the_least_recently_used_entries_are_evicted_first_and_the_bound_holds() {
        let cache = IdentityCache::new(8);
        for name in 0..8 {
            cache.remember(&identity(&name.to_string()), ());
        }
        assert!(cache.contains(&identity("0")));
        for name in 8..100 {
            cache.remember(&identity(&name.to_string()), ());
            assert!(cache.contains(&identity("0")), "asked for again and again");
            assert!(cache.len() <= 9);
        }
        assert!(!cache.contains(&identity("1")));
    }
}
