//! Compares pages of the graph with the whole graph.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

/// A partition with this many objects, each the owner of the next.
fn chain(objects: u32) -> Partition {
    let sharding = Sharding::new(std::num::NonZeroU16::MIN, crate::object::HashSeed::new(1));
    let mut partition = Partition::new(PartitionId(1), sharding, Arc::clone(catalog()));
    let mut events = vec![WatchEvent::Init { resource_version: None }];
    let mut last: Option<Obj> = None;
    for number in 0..objects {
        let mut next = config(&format!("c{number}"));
        if let Some(last) = &last {
            next = next.owned(last);
        }
        events.push(WatchEvent::Apply(next.facts.clone()));
        last = Some(next);
    }
    events.push(WatchEvent::InitDone { resource_version: ResourceVersion::parse("20") });
    let (resource, epoch) = (resource("configmaps"), Epoch(1));
    let deletes_prove = DeletesProve::Absence;
    let mut out = Effects::default();
    let started = Intake::MonitorStarted { resource: Arc::clone(&resource), epoch, deletes_prove };
    partition.intake(started, &mut out);
    partition.intake(Intake::Events { resource, epoch, events }, &mut out);
    partition
}

#[test]
fn no_page_of_a_large_graph_exceeds_the_requested_size() {
    const OBJECTS: u32 = 20_000;
    const PLACES: usize = 1000;
    let partition = chain(OBJECTS);
    let (mut nodes, mut edges, mut pages) = (BTreeSet::new(), 0, 0);
    let mut after = None;
    loop {
        let page = partition.page_of_nodes(after, PLACES);
        assert!(page.nodes.len() <= PLACES);
        pages += 1;
        nodes.extend(page.nodes.into_iter().map(|(id, _)| id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((nodes.len(), pages), (20_000, 20));
    loop {
        let page = partition.page_of_edges(after, PLACES);
        assert!(page.edges.len() <= PLACES);
        edges += page.edges.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(edges, 19_999);
}
