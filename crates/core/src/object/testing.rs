//! For tests of this crate and of its users: an identity, the cost of hash tables and searches.

#![allow(clippy::unwrap_used, reason = "it is compiled for tests alone")]

use std::hash::BuildHasher as _;

use super::{HashSeed, Identity, Namespace, ResourceType, Scope, Uid};

/// The identity of a ConfigMap.
pub fn config_map(namespace: &str, name: &str, uid: &str) -> Identity {
    let resource = ResourceType::of("configmaps", "v1", "ConfigMap", Scope::Namespaced);
    let uid = Uid::parse(uid).unwrap();
    Identity { resource, namespace: Namespace::parse(namespace), name: name.into(), uid }
}

/// Counts the steps of the current thread: each comparison in a hash table, and each reference that
/// a search in the graph visits.
pub mod steps {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    pub fn so_far() -> u64 {
        COUNT.get()
    }

    /// The number of steps that this takes.
    pub fn of(work: impl FnOnce()) -> u64 {
        let before = so_far();
        work();
        so_far() - before
    }
}

/// A uid as an API server generates them, the same for each number.
pub fn random_uid(number: u64) -> String {
    let [high, low] = [1, 2].map(|seed| HashSeed::new(seed).keyed(0).hash_one(number));
    uuid::Uuid::from_u64_pair(high, low).to_string()
}
