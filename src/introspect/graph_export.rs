//! The graph as text, for people: asked for page by page and never held as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{Stream, try_unfold};

use crate::actors::graph_handle::PartitionEnded;
use kube_gc_core::graph::dump::{DumpFormat, DumpId, DumpNode, DumpWriter, EdgePage, Neighborhood, NodePage};
use kube_gc_core::graph::{Cursor, Dump, PartitionId};
use kube_gc_core::object::Uid;

/// How many places of a partition are looked at in one go: some milliseconds of its
/// time, and less than a megabyte of text.
const PLACES: usize = 1000;

type Answer<T> = Result<T, PartitionEnded>;

/// Nodes, each with its name.
type Nodes = Vec<(DumpId, DumpNode)>;

/// All partitions, as a picture of them needs them.
pub trait Sitters: Clone + Send + Sync + 'static {
    /// How many there are.
    fn count(&self) -> u16;

    /// A page of one partition's nodes.
    fn nodes(
        &self,
        of: PartitionId,
        after: Option<Cursor>,
        places: usize,
    ) -> impl Future<Output = Answer<NodePage>> + Send;

    /// A page of one partition's edges.
    fn edges(
        &self,
        of: PartitionId,
        after: Option<Cursor>,
        places: usize,
    ) -> impl Future<Output = Answer<EdgePage>> + Send;

    /// Whether a partition shows these nodes better than the one that asks.
    fn better(
        &self,
        at: PartitionId,
        asker: PartitionId,
        shown: Arc<Nodes>,
    ) -> impl Future<Output = Answer<Vec<bool>>> + Send;

    /// What a partition has by these uids.
    fn nodes_of(&self, at: PartitionId, uids: Vec<Uid>) -> impl Future<Output = Answer<Nodes>> + Send;

    /// What a partition knows of these nodes.
    fn around(
        &self,
        at: PartitionId,
        ids: Arc<Vec<DumpId>>,
    ) -> impl Future<Output = Answer<Neighborhood>> + Send;
}

fn all<S: Sitters>(sitters: &S) -> impl Iterator<Item = PartitionId> + use<S> {
    (0..sitters.count()).map(PartitionId)
}

/// What is to be written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Begin,
    Nodes(PartitionId, Option<Cursor>),
    Edges(PartitionId, Option<Cursor>),
    Nothing,
}

/// How far the text is. All that is kept between two pages.
#[derive(Debug)]
struct Easel<S> {
    sitters: S,
    scribe: DumpWriter,
    next: Next,
}

/// The whole graph, in pieces: every node that has an edge, then every edge. Each
/// piece is made when it is asked for; meanwhile nothing is held.
///
/// What comes and goes while it is read is in it or not: it shows each object as
/// it was at some moment, and not all of them at the same.
pub fn whole<S: Sitters>(
    sitters: S,
    language: DumpFormat,
) -> impl Stream<Item = Answer<String>> + Send + 'static {
    // What a scribe begins with is written again by the first step.
    let scribe = DumpWriter::new(language, &mut String::new());
    let easel = Easel { sitters, scribe, next: Next::Begin };
    try_unfold(easel, move |mut easel| async move {
        let mut text = String::new();
        // A page without any edge, which most of the graph can be, is no piece.
        while text.is_empty() {
            if easel.next == Next::Nothing {
                return Ok(None);
            }
            easel.step(language, &mut text).await?;
        }
        Ok(Some((text, easel)))
    })
}

impl<S: Sitters> Easel<S> {
    async fn step(&mut self, language: DumpFormat, text: &mut String) -> Answer<()> {
        let first = PartitionId(0);
        self.next = match self.next {
            Next::Begin => {
                self.scribe = DumpWriter::new(language, text);
                Next::Nodes(first, None)
            }
            Next::Nodes(of, after) => {
                let page = self.sitters.nodes(of, after, PLACES).await?;
                let nodes = best(&self.sitters, of, page.nodes).await?;
                self.scribe.nodes(nodes.iter().map(|(id, node)| (id, node)), text);
                match (page.next, self.following(of)) {
                    (Some(after), _) => Next::Nodes(of, Some(after)),
                    (None, Some(following)) => Next::Nodes(following, None),
                    (None, None) => Next::Edges(first, None),
                }
            }
            Next::Edges(of, after) => {
                let page = self.sitters.edges(of, after, PLACES).await?;
                self.scribe.edges(&page.edges, text);
                match (page.next, self.following(of)) {
                    (Some(after), _) => Next::Edges(of, Some(after)),
                    (None, Some(following)) => Next::Edges(following, None),
                    (None, None) => {
                        self.scribe.end(text);
                        Next::Nothing
                    }
                }
            }
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }

    fn following(&self, PartitionId(of): PartitionId) -> Option<PartitionId> {
        (of + 1 < self.sitters.count()).then_some(PartitionId(of + 1))
    }
}

/// Those of a partition's nodes that no other shows better. What a monitor shows
/// is asked about nowhere.
async fn best(sitters: &impl Sitters, asker: PartitionId, nodes: Nodes) -> Answer<Nodes> {
    let (mut nodes, doubtful): (Nodes, Nodes) = nodes.into_iter().partition(|(_, node)| node.is_observed());
    if doubtful.is_empty() {
        return Ok(nodes);
    }
    let doubtful = Arc::new(doubtful);
    let others = all(sitters).filter(|other| *other != asker);
    let answers =
        try_join_all(others.map(|other| sitters.better(other, asker, Arc::clone(&doubtful)))).await?;
    let outdone = |index: usize| answers.iter().any(|better| better.get(index) == Some(&true));
    let kept = doubtful.iter().enumerate().filter(|(index, _)| !outdone(*index));
    nodes.extend(kept.map(|(_, node)| node.clone()));
    Ok(nodes)
}

/// All that is connected with the objects of these uids, in either direction. Holds
/// that much in memory, and asks for nothing else.
pub async fn component(sitters: &impl Sitters, uids: &[Uid]) -> Answer<Dump> {
    let roots = try_join_all(all(sitters).map(|at| sitters.nodes_of(at, uids.to_vec()))).await?;
    let mut dump = Dump::default();
    roots.into_iter().flatten().for_each(|node| take_in(&mut dump, node));
    let mut reached: BTreeSet<DumpId> = dump.nodes.keys().cloned().collect();
    let mut open: Vec<DumpId> = reached.iter().cloned().collect();
    while !open.is_empty() {
        let ids = Arc::new(open.split_off(open.len().saturating_sub(PLACES)));
        let answers = try_join_all(all(sitters).map(|at| sitters.around(at, Arc::clone(&ids)))).await?;
        for Neighborhood { nodes, edges } in answers {
            nodes.into_iter().for_each(|node| take_in(&mut dump, node));
            for edge in edges {
                for end in [&edge.child, &edge.owner] {
                    if reached.insert(end.clone()) {
                        open.push(end.clone());
                    }
                }
                dump.edges.insert(edge);
            }
        }
    }
    Ok(dump)
}

/// Of what several partitions show, the best is taken.
fn take_in(dump: &mut Dump, (id, node): (DumpId, DumpNode)) {
    if dump.nodes.get(&id).is_none_or(|known| node < *known) {
        dump.nodes.insert(id, node);
    }
}

#[cfg(test)]
mod tests;
