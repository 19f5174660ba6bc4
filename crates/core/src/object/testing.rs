//! For tests of this crate and of its users: an identity, the cost of hash tables and searches.

#![allow(clippy::unwrap_used, reason = "it is compiled for tests alone")]

use std::sync::Arc;

use super::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};

/// The identity of a ConfigMap.
pub fn config_map(namespace: &str, name: &str, uid: &str) -> Identity {
    let resource = Arc::new(ResourceType {
        group_resource: GroupResource::parse("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        scope: Scope::Namespaced,
    });
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

/// Uids that collide in a hash table whose hash users can compute.
pub mod crafted {
    /// The name of a family, and its uids by number.
    pub type Family = (&'static str, fn(u64) -> String);

    pub const FAMILIES: [Family; 5] = [
        ("the first half is a constant of the former hash", |number| {
            uuid(0x082e_fa98_ec4e_6c89, spread(number))
        }),
        ("the second half is a constant that no seed would have changed", |number| {
            uuid(spread(number), 0xc0ac_29b7_c97c_50dd)
        }),
        ("they differ in the highest bits only", |number| uuid(number << 44 | 1, 1)),
        ("they are consecutive", |number| uuid(1, number)),
        ("they are not UUIDs", |number| format!("{number:064}")),
    ];

    /// Uids as an API server generates them.
    pub fn random(number: u64) -> String {
        uuid(spread(2 * number + 1), spread(u64::MAX - number))
    }

    fn uuid(high: u64, low: u64) -> String {
        uuid::Uuid::from_u64_pair(high, low).hyphenated().to_string()
    }

    /// A bijection (splitmix64's).
    fn spread(number: u64) -> u64 {
        let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
