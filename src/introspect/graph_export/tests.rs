//! The graph in pieces, against the whole of it put together in memory.

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use proptest::prelude::*;
use serde_json::Value;

use crate::actors::graph_handle::PartitionEnded;
use crate::introspect::graph_export::{PartitionReader, component, whole};
use kube_gc_core::graph::dump::{DumpFormat, DumpId, DumpNode, EdgePage, Neighborhood, NodePage};
use kube_gc_core::graph::testing::histories::{played, steps};
use kube_gc_core::graph::testing::world::{World, config, node, obj, pod, resource};
use kube_gc_core::graph::{Cursor, Dump, Intake, PartitionId, WatchEvent};
use kube_gc_core::object::Uid;

/// Partitions that answer at once, and look at so few places at a time that there are
/// many pages.
#[derive(Clone)]
struct Here(Arc<World>);

const PLACES: usize = 2;
/// More than what is asked for at a time may never be.
const AT_MOST: usize = 1000;

/// The same as they are asked.
#[derive(Clone)]
struct AsAsked(Here);

impl Here {
    fn of(&self, PartitionId(id): PartitionId) -> &kube_gc_core::graph::Partition {
        &self.0.partitions[usize::from(id)]
    }
}

impl PartitionReader for Here {
    fn count(&self) -> u16 {
        u16::try_from(self.0.partitions.len()).unwrap()
    }

    async fn nodes(
        &self,
        of: PartitionId,
        after: Option<Cursor>,
        _: usize,
    ) -> Result<NodePage, PartitionEnded> {
        Ok(self.of(of).page_of_nodes(after, PLACES))
    }

    async fn edges(
        &self,
        of: PartitionId,
        after: Option<Cursor>,
        _: usize,
    ) -> Result<EdgePage, PartitionEnded> {
        Ok(self.of(of).page_of_edges(after, PLACES))
    }

    async fn better(
        &self,
        at: PartitionId,
        asker: PartitionId,
        shown: Arc<Vec<(DumpId, DumpNode)>>,
    ) -> Result<Vec<bool>, PartitionEnded> {
        Ok(self.of(at).shows_better(asker, &shown))
    }

    async fn nodes_of(
        &self,
        at: PartitionId,
        uids: Vec<Uid>,
    ) -> Result<Vec<(DumpId, DumpNode)>, PartitionEnded> {
        Ok(self.of(at).nodes_of(&uids))
    }

    async fn around(&self, at: PartitionId, ids: Arc<Vec<DumpId>>) -> Result<Neighborhood, PartitionEnded> {
        Ok(self.of(at).neighborhood(&ids))
    }
}

impl PartitionReader for AsAsked {
    fn count(&self) -> u16 {
        self.0.count()
    }

    async fn nodes(
        &self,
        of: PartitionId,
        after: Option<Cursor>,
        slots: usize,
    ) -> Result<NodePage, PartitionEnded> {
        assert!(slots <= AT_MOST);
        Ok(self.0.of(of).page_of_nodes(after, slots))
    }

    async fn edges(
        &self,
        of: PartitionId,
        after: Option<Cursor>,
        slots: usize,
    ) -> Result<EdgePage, PartitionEnded> {
        assert!(slots <= AT_MOST);
        Ok(self.0.of(of).page_of_edges(after, slots))
    }

    async fn better(
        &self,
        at: PartitionId,
        asker: PartitionId,
        shown: Arc<Vec<(DumpId, DumpNode)>>,
    ) -> Result<Vec<bool>, PartitionEnded> {
        assert!(shown.len() <= AT_MOST);
        self.0.better(at, asker, shown).await
    }

    async fn nodes_of(
        &self,
        at: PartitionId,
        uids: Vec<Uid>,
    ) -> Result<Vec<(DumpId, DumpNode)>, PartitionEnded> {
        self.0.nodes_of(at, uids).await
    }

    async fn around(&self, at: PartitionId, ids: Arc<Vec<DumpId>>) -> Result<Neighborhood, PartitionEnded> {
        assert!(ids.len() <= AT_MOST);
        self.0.around(at, ids).await
    }
}

fn pieces(partitions: &impl PartitionReader, language: DumpFormat) -> Vec<String> {
    whole(partitions.clone(), language).try_collect().now_or_never().unwrap().unwrap()
}

/// The nodes and the edges, each sorted: they come in the order of the partitions.
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
    fn the_pieces_are_the_whole(steps in steps(false), namespaced in 1..4_u16, picks in prop::collection::vec(0..9_usize, 0..3)) {
        let here = Here(Arc::new(played(&steps, namespaced)));
        let model = here.0.dump();
        prop_assert_eq!(
            sorted(&pieces(&here, DumpFormat::Json).concat()),
            sorted(&model.written(DumpFormat::Json))
        );
        let (dot, expected) = (pieces(&here, DumpFormat::Dot).concat(), model.written(DumpFormat::Dot));
        prop_assert_eq!(sorted_lines(&dot), sorted_lines(&expected));

        let uids: Vec<Uid> = model.nodes.keys().map(|id| id.uid.clone()).collect();
        let uids: Vec<Uid> = picks.iter().filter_map(|&pick| uids.get(pick).cloned()).collect();
        let with_roots = here.0.partitions.iter().map(|partition| partition.dump(Some(&uids)));
        let expected = Dump::merge(with_roots).component(&uids);
        let found = component(&here, &uids).now_or_never().unwrap().unwrap();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn what_several_partitions_have_heard_of_is_shown_once_and_by_whom_knows_it() {
    let mut w = World::new(3);
    let far = node("far").foreground();
    let pods: Vec<_> = ["a", "b", "c"].map(|place| obj("pods", place, place).owned(&far)).into();
    w.see(&pods.iter().collect::<Vec<_>>());
    let here = Here(Arc::new(w));
    let dot = pieces(&here, DumpFormat::Dot).concat();
    assert_eq!(dot.matches("  \"far/nodes\" [").count(), 1, "{dot}");
    let mut w = Arc::into_inner(here.0).unwrap();
    w.see(&[&far]);
    let dot = pieces(&Here(Arc::new(w)), DumpFormat::Dot).concat();
    assert_eq!(dot.matches("  \"far/nodes\" [").count(), 1, "{dot}");
    assert!(dot.contains("missing=\"false\" beingDeleted=\"true\" deletingDependents=\"true\""), "{dot}");
    assert_eq!(dot.matches(" -> \"far/nodes\";").count(), 3, "{dot}");
}

#[test]
fn an_object_without_edges_is_its_own_component_and_in_no_picture() {
    let mut w = World::new(2);
    w.see(&[&pod("lonely"), &pod("a").owned(&config("b"))]);
    let here = Here(Arc::new(w));
    let lonely = Uid::parse("lonely").unwrap();
    let found = component(&here, &[lonely]).now_or_never().unwrap().unwrap();
    assert_eq!((found.nodes.len(), found.edges.len()), (1, 0));
    assert!(!pieces(&here, DumpFormat::Dot).concat().contains("lonely"));
    let nobody = Uid::parse("nobody").unwrap();
    assert!(component(&here, &[nobody]).now_or_never().unwrap().unwrap().nodes.is_empty());
}

#[test]
fn every_piece_is_one_page() {
    let mut w = World::new(1);
    let owner = config("owner");
    let pods: Vec<_> = (0..40).map(|n| pod(&format!("p{n}")).owned(&owner)).collect();
    w.see(&pods.iter().collect::<Vec<_>>());
    let here = Here(Arc::new(w));
    let pieces = pieces(&here, DumpFormat::Dot);
    assert!(pieces.len() > 40, "{}", pieces.len());
    for piece in &pieces {
        // And the braces around all of it.
        assert!(piece.lines().count() <= PLACES + 1, "{piece}");
    }
    // One piece at a time: nothing is made ahead of who reads it.
    let mut reading = whole(here, DumpFormat::Json).boxed();
    assert!(reading.next().now_or_never().flatten().is_some());
}

#[test]
fn a_large_graph_is_never_held_as_a_whole() {
    const OBJECTS: usize = 200_000;
    let mut w = World::unsynced(1);
    // Each is owned by the one before, and the first by an owner in partition 0.
    let mut last = node("n");
    let mut changes = Vec::new();
    for number in 0..OBJECTS {
        let next = pod(&format!("p{number}")).owned(&last);
        changes.push(WatchEvent::Apply(next.facts.clone()));
        last = next;
    }
    let (resource, epoch) = (resource("pods"), w.epoch);
    w.intake(PartitionId(1), Intake::Events { resource, epoch, events: changes });
    let here = AsAsked(Here(Arc::new(w)));
    let pieces = pieces(&here, DumpFormat::Dot);
    let text: usize = pieces.iter().map(String::len).sum();
    let longest = pieces.iter().map(String::len).max().unwrap();
    assert!(longest < 1_000_000 && text > 40 * longest, "{longest} of {text}");
    let lines = pieces.iter().map(|piece| piece.lines().count()).sum::<usize>();
    assert_eq!(lines, OBJECTS + 1 + OBJECTS + 2, "nodes, edges, and what is around them");
}
