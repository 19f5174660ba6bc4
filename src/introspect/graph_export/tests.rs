//! Compares the paged export with a dump of the whole graph.

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use proptest::prelude::*;
use serde_json::Value;

use crate::introspect::graph_export::{PAGE_SLOTS, Partitions, component, whole};
use kube_gc_controller::actors::graph_handle::PartitionEnded;
use kube_gc_core::graph::dump::DumpFormat;
use kube_gc_core::graph::testing::histories::{played, steps};
use kube_gc_core::graph::testing::world::{World, config, node, pod, resource};
use kube_gc_core::graph::{Dump, Intake, Partition, PartitionId, WatchEvent};
use kube_gc_core::object::Uid;

/// The size of a small page, so that a small graph has many pages.
const SMALL_PAGE: usize = 2;

/// Partitions that answer at once.
#[derive(Clone)]
struct Played {
    world: Arc<World>,
    /// The size of a page.
    page: usize,
}

impl Played {
    fn with_small_pages(world: World) -> Self {
        Self { world: Arc::new(world), page: SMALL_PAGE }
    }
}

impl Partitions for Played {
    fn count(&self) -> u16 {
        u16::try_from(self.world.partitions.len()).unwrap()
    }

    fn page(&self) -> usize {
        self.page
    }

    async fn ask<A: Send + 'static>(
        &self,
        PartitionId(at): PartitionId,
        question: impl FnOnce(&Partition) -> A + Send + 'static,
    ) -> Result<A, PartitionEnded> {
        Ok(question(&self.world.partitions[usize::from(at)]))
    }
}

fn pieces(partitions: &Played, language: DumpFormat) -> Vec<String> {
    whole(partitions.clone(), language).try_collect().now_or_never().unwrap().unwrap()
}

/// The nodes and edges, each sorted, because they are exported partition by partition.
fn sorted(text: &str) -> (Vec<String>, Vec<String>) {
    let json: Value = serde_json::from_str(text).unwrap();
    let [nodes, edges] = ["nodes", "edges"].map(|part| {
        let mut lines: Vec<String> = json[part].as_array().unwrap().iter().map(Value::to_string).collect();
        lines.sort();
        lines
    });
    (nodes, edges)
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

proptest! {
    #[test]
    fn the_pieces_form_the_whole_graph(steps in steps(false), namespaced in 1..4_u16, picks in prop::collection::vec(0..9_usize, 0..3)) {
        let partitions = Played::with_small_pages(played(&steps, namespaced));
        let model = partitions.world.dump();
        prop_assert_eq!(
            sorted(&pieces(&partitions, DumpFormat::Json).concat()),
            sorted(&model.written(DumpFormat::Json))
        );
        let (dot, expected) = (pieces(&partitions, DumpFormat::Dot).concat(), model.written(DumpFormat::Dot));
        prop_assert_eq!(sorted_lines(&dot), sorted_lines(&expected));

        let uids: Vec<Uid> = model.nodes.keys().map(|id| id.uid.clone()).collect();
        let uids: Vec<Uid> = picks.iter().filter_map(|&pick| uids.get(pick).cloned()).collect();
        let with_roots = partitions.world.partitions.iter().map(|partition| partition.dump(Some(&uids)));
        let expected = Dump::merge(with_roots).component(&uids);
        let found = component(&partitions, &uids).now_or_never().unwrap().unwrap();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn an_object_without_edges_is_its_own_component_and_not_exported() {
    let mut w = World::new(2);
    w.see(&[&pod("lonely"), &pod("a").owned(&config("b"))]);
    let partitions = Played::with_small_pages(w);
    let lonely = Uid::parse("lonely").unwrap();
    let found = component(&partitions, &[lonely]).now_or_never().unwrap().unwrap();
    assert_eq!((found.nodes.len(), found.edges.len()), (1, 0));
    assert!(!pieces(&partitions, DumpFormat::Dot).concat().contains("lonely"));
    let nobody = Uid::parse("nobody").unwrap();
    assert!(component(&partitions, &[nobody]).now_or_never().unwrap().unwrap().nodes.is_empty());
}

#[test]
fn every_piece_is_one_page() {
    let mut w = World::new(1);
    let owner = config("owner");
    let pods: Vec<_> = (0..40).map(|n| pod(&format!("p{n}")).owned(&owner)).collect();
    w.see(&pods.iter().collect::<Vec<_>>());
    let partitions = Played::with_small_pages(w);
    let pieces = pieces(&partitions, DumpFormat::Dot);
    assert!(pieces.len() > 40, "{}", pieces.len());
    for piece in &pieces {
        // One more line for the enclosing braces.
        assert!(piece.lines().count() <= SMALL_PAGE + 1, "{piece}");
    }
    // A piece is produced only when it is read.
    let mut reading = whole(partitions, DumpFormat::Json).boxed();
    assert!(reading.next().now_or_never().flatten().is_some());
}

#[test]
fn an_export_never_holds_the_whole_graph() {
    const OBJECTS: usize = 200_000;
    let mut w = World::unsynced(1);
    // The previous object owns each object, and an owner in partition 0 owns the first.
    let mut last = node("n");
    let mut changes = Vec::new();
    for number in 0..OBJECTS {
        let next = pod(&format!("p{number}")).owned(&last);
        changes.push(WatchEvent::Apply(next.facts.clone()));
        last = next;
    }
    let (resource, epoch) = (resource("pods"), w.epoch);
    w.intake(PartitionId(1), Intake::Events { resource, epoch, events: changes });
    let partitions = Played { world: Arc::new(w), page: PAGE_SLOTS };
    let pieces = pieces(&partitions, DumpFormat::Dot);
    let text: usize = pieces.iter().map(String::len).sum();
    let longest = pieces.iter().map(String::len).max().unwrap();
    assert!(longest < 1_000_000 && text > 40 * longest, "{longest} of {text}");
    let lines = pieces.iter().map(|piece| piece.lines().count()).sum::<usize>();
    assert_eq!(lines, OBJECTS + 1 + OBJECTS + 2, "nodes, edges and the enclosing lines");
}
