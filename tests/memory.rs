//! The memory of an object in the graph, counted and not estimated, so that an increase is noticed.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::num::NonZeroU16;
use std::sync::Arc;

use allocation_counter::measure;
use kube_gc_core::graph::{DeletesProve, Effects, Epoch, Partition, Sharding, WatchEvent};
use kube_gc_core::object::{
    Catalog, GroupResource, HashSeed, ObjectFacts, ResourceType, ResourceVersion, Scope, ServedKind,
};
use kube_gc_decode::benching;

/// So many that fixed costs do not matter.
const OBJECTS: usize = 50_000;
/// The size of a batch, as from a monitor.
const BATCH: usize = 500;

/// A page of a list as it is read. As in a usual cluster, 58 of 100 objects have an owner, which is one of
/// the others.
fn page(first: usize) -> Vec<ObjectFacts> {
    let uid = |number: usize| format!("5eed{:04x}-0000-4000-8000-{number:012x}", number % 0x1_0000);
    let name = |number: usize| format!("recommendations-api-5d4f8b7c9d-{number:05}");
    let mut items = Vec::new();
    for number in first..first + BATCH {
        let mut item = format!(
            r#"{{"metadata":{{"name":"{}","namespace":"payments-prod-{}","uid":"{}","resourceVersion":"{}""#,
            name(number),
            number / 200,
            uid(number),
            number + 1,
        );
        if number % 100 < 58 {
            let owner = number - number % 100 + 58 + number % 42;
            let _ = write!(
                item,
                r#","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"{}","uid":"{}"}}]"#,
                name(owner),
                uid(owner)
            );
        }
        items.push(item + "}}");
    }
    let list = format!(
        r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#,
        items.join(",")
    );
    benching::list([list.as_bytes()].into_iter()).unwrap()
}

/// The partition of these objects, and the total length of their names.
fn graph() -> (Partition, usize) {
    let resource = Arc::new(ResourceType {
        group_resource: GroupResource::parse("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        scope: Scope::Namespaced,
    });
    let mut catalog = Catalog::builder();
    catalog.add(ServedKind { version: "v1".into(), resource: Arc::clone(&resource) });
    let sharding = Sharding::new(NonZeroU16::MIN, HashSeed::new(1));
    let id = sharding.all().find(|id| *id != Sharding::CLUSTER).unwrap();
    let mut partition = Partition::new(id, sharding, Arc::new(catalog.build()));
    let mut effects = Effects::default();
    partition.monitor_started(&resource, Epoch(1), DeletesProve::Absence);
    let mut take = |events: &[WatchEvent]| {
        partition.apply_events(&resource, Epoch(1), events, &mut effects);
        effects.clear();
    };
    take(&[WatchEvent::Init { resource_version: None }]);
    let mut names = 0;
    for first in (0..OBJECTS).step_by(BATCH) {
        let page = page(first);
        names += page.iter().map(|facts| facts.name.len()).sum::<usize>();
        take(&page.into_iter().map(WatchEvent::Apply).collect::<Vec<_>>());
    }
    let resource_version = Some(ResourceVersion::number(OBJECTS as u64 + 1));
    take(&[WatchEvent::InitDone { resource_version }]);
    (partition, names)
}

#[test]
fn an_object_takes_120_bytes_and_its_name() {
    let mut built = None;
    let allocated = measure(|| built = Some(graph()));
    let (partition, names) = built.unwrap();
    let stats = partition.stats();
    assert_eq!(stats.nodes, OBJECTS);
    let each = |bytes: usize| bytes as f64 / OBJECTS as f64;
    let counted = usize::try_from(allocated.bytes_current).unwrap();
    assert!(each(counted - names) <= 120.0, "{} bytes", each(counted - names));
    // An allocator rounds each one up. Only the name has its own.
    let pieces = usize::try_from(allocated.count_current).unwrap();
    assert!(each(pieces) < 1.1, "{} allocations", each(pieces));
    let own = stats.bytes;
    assert!(own <= counted && own > counted * 97 / 100, "{own} by its own account, but {counted} bytes");
}
