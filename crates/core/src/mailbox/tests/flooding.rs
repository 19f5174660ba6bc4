//! Keys contain uids, and users choose the uids in references.

use std::sync::Arc;

use super::*;
use crate::object::{GroupResource, Key, ResourceType, Scope, Uid, crafted, steps};

const KEYS: u64 = 150_000;

/// Adds keys twice, removes them all, and returns the number of comparisons.
fn flood(key: impl Fn(u64) -> Key) -> u64 {
    let mut mailbox = Mailbox::<Key, Reason>::new(Backoff::default(), HashSeed::new(4));
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    steps::of(|| {
        for key in keys.iter().chain(&keys) {
            mailbox.add(key.clone(), at(0));
        }
        while let Some(job) = mailbox.pop(at(1)) {
            mailbox.finish(&job.key, Completion::Done, at(1));
        }
        assert!(mailbox.is_empty());
    })
}

fn resource(name: &str) -> Arc<ResourceType> {
    Arc::new(ResourceType {
        group_resource: GroupResource::parse(name),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        scope: Scope::Namespaced,
    })
}

#[test]
fn crafted_uids_cost_the_mailbox_no_more_than_random_ones() {
    let resource = resource("configmaps");
    let with = |uid: String| Key {
        uid: Uid::parse(&uid).unwrap(),
        resource: Arc::clone(&resource),
        namespace: Namespace::parse("tenant"),
    };
    let usual = flood(|number| with(crafted::random(number)));
    for (family, make) in crafted::FAMILIES {
        let cost = flood(|number| with(make(number)));
        assert!(cost <= usual * 11 / 10, "{family}: {cost} comparisons, {usual} with random uids");
    }
}

#[test]
fn one_uid_of_many_types_in_many_namespaces_costs_no_more_than_many_uids() {
    let resources: Vec<_> = (0..300).map(|number| resource(&format!("things{number}"))).collect();
    let key = |number: u64, uid: &str| Key {
        uid: Uid::parse(uid).unwrap(),
        resource: Arc::clone(&resources[(number % 300) as usize]),
        namespace: Namespace::parse(&format!("tenant-{}", number / 300)),
    };
    let usual = flood(|number| key(number, &crafted::random(number)));
    let cost = flood(|number| key(number, "one"));
    assert!(cost <= usual * 11 / 10, "{cost} comparisons, {usual} with random uids");
}
