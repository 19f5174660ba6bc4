//! Exports the graph as text, page by page. It never holds the whole graph.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{Stream, try_unfold};

use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use kube_gc_core::graph::dump::{DumpFormat, DumpId, DumpNode, DumpWriter, EdgePage, Neighborhood, NodePage};
use kube_gc_core::graph::{Cursor, Dump, PartitionId};
use kube_gc_core::object::Uid;

/// Node slots that a partition scans for one page: some milliseconds of its time, and less
/// than a megabyte of text.
const PAGE_SLOTS: usize = 1000;

type Answer<T> = Result<T, PartitionEnded>;

type Nodes = Vec<(DumpId, DumpNode)>;

/// What an export reads of the partitions.
pub trait PartitionReader: Clone + Send + Sync + 'static {
    /// The number of partitions.
    fn count(&self) -> u16;

    /// A page of one partition's nodes.
    fn nodes(
        &self,
        of: PartitionId,
        after: Option<Cursor>,
        slots: usize,
    ) -> impl Future<Output = Answer<NodePage>> + Send;

    /// A page of one partition's edges.
    fn edges(
        &self,
        of: PartitionId,
        after: Option<Cursor>,
        slots: usize,
    ) -> impl Future<Output = Answer<EdgePage>> + Send;

    /// For each of the asker's nodes: does this partition know it better?
    fn better(
        &self,
        at: PartitionId,
        asker: PartitionId,
        shown: Arc<Nodes>,
    ) -> impl Future<Output = Answer<Vec<bool>>> + Send;

    /// The nodes of a partition that have one of these uids.
    fn nodes_of(&self, at: PartitionId, uids: Vec<Uid>) -> impl Future<Output = Answer<Nodes>> + Send;

    /// These nodes and their edges, as far as a partition knows them.
    fn around(
        &self,
        at: PartitionId,
        ids: Arc<Vec<DumpId>>,
    ) -> impl Future<Output = Answer<Neighborhood>> + Send;
}

impl PartitionReader for GraphHandle {
    fn count(&self) -> u16 {
        u16::try_from(self.partitions().count()).unwrap_or(u16::MAX)
    }

    async fn nodes(&self, of: PartitionId, after: Option<Cursor>, slots: usize) -> Answer<NodePage> {
        self.ask(of, move |partition, _| partition.page_of_nodes(after, slots)).await
    }

    async fn edges(&self, of: PartitionId, after: Option<Cursor>, slots: usize) -> Answer<EdgePage> {
        self.ask(of, move |partition, _| partition.page_of_edges(after, slots)).await
    }

    async fn better(
        &self,
        at: PartitionId,
        asker: PartitionId,
        shown: Arc<Vec<(DumpId, DumpNode)>>,
    ) -> Answer<Vec<bool>> {
        self.ask(at, move |partition, _| partition.shows_better(asker, &shown)).await
    }

    async fn nodes_of(&self, at: PartitionId, uids: Vec<Uid>) -> Answer<Vec<(DumpId, DumpNode)>> {
        self.ask(at, move |partition, _| partition.nodes_of(&uids)).await
    }

    async fn around(&self, at: PartitionId, ids: Arc<Vec<DumpId>>) -> Answer<Neighborhood> {
        self.ask(at, move |partition, _| partition.neighborhood(&ids)).await
    }
}

fn all<R: PartitionReader>(partitions: &R) -> impl Iterator<Item = PartitionId> + use<R> {
    (0..partitions.count()).map(PartitionId)
}

/// The next page to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Begin,
    Nodes(PartitionId, Option<Cursor>),
    Edges(PartitionId, Option<Cursor>),
    Nothing,
}

/// The position of an export: all that is kept between two pages.
#[derive(Debug)]
struct GraphExport<R> {
    partitions: R,
    writer: DumpWriter,
    next: Next,
}

/// Exports the whole graph in pieces: every node that has an edge, then every edge. A piece
/// is produced when the reader asks for it, and nothing is locked between two pieces.
///
/// The export is no consistent snapshot: each object is shown as it was at some moment, and
/// objects that come or go during the export may be missing.
pub fn whole<R: PartitionReader>(
    partitions: R,
    language: DumpFormat,
) -> impl Stream<Item = Answer<String>> + Send + 'static {
    // The first step creates the writer again, with the text that it begins with.
    let writer = DumpWriter::new(language, &mut String::new());
    let export = GraphExport { partitions, writer, next: Next::Begin };
    try_unfold(export, move |mut export| async move {
        let mut text = String::new();
        // Most nodes of a graph may have no edge. An empty page must not end the stream.
        while text.is_empty() {
            if export.next == Next::Nothing {
                return Ok(None);
            }
            export.step(language, &mut text).await?;
        }
        Ok(Some((text, export)))
    })
}

impl<R: PartitionReader> GraphExport<R> {
    async fn step(&mut self, language: DumpFormat, text: &mut String) -> Answer<()> {
        let first = PartitionId(0);
        self.next = match self.next {
            Next::Begin => {
                self.writer = DumpWriter::new(language, text);
                Next::Nodes(first, None)
            }
            Next::Nodes(of, after) => {
                let page = self.partitions.nodes(of, after, PAGE_SLOTS).await?;
                let nodes = best(&self.partitions, of, page.nodes).await?;
                self.writer.nodes(nodes.iter().map(|(id, node)| (id, node)), text);
                match (page.next, self.following(of)) {
                    (Some(after), _) => Next::Nodes(of, Some(after)),
                    (None, Some(following)) => Next::Nodes(following, None),
                    (None, None) => Next::Edges(first, None),
                }
            }
            Next::Edges(of, after) => {
                let page = self.partitions.edges(of, after, PAGE_SLOTS).await?;
                self.writer.edges(&page.edges, text);
                match (page.next, self.following(of)) {
                    (Some(after), _) => Next::Edges(of, Some(after)),
                    (None, Some(following)) => Next::Edges(following, None),
                    (None, None) => {
                        self.writer.end(text);
                        Next::Nothing
                    }
                }
            }
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }

    fn following(&self, PartitionId(of): PartitionId) -> Option<PartitionId> {
        (of + 1 < self.partitions.count()).then_some(PartitionId(of + 1))
    }
}

/// The nodes of a partition that no other partition knows better. A node that a monitor observed is
/// always the best one.
async fn best(partitions: &impl PartitionReader, asker: PartitionId, nodes: Nodes) -> Answer<Nodes> {
    let (mut nodes, unobserved): (Nodes, Nodes) = nodes.into_iter().partition(|(_, node)| node.is_observed());
    if unobserved.is_empty() {
        return Ok(nodes);
    }
    let unobserved = Arc::new(unobserved);
    let others = all(partitions).filter(|other| *other != asker);
    let answers =
        try_join_all(others.map(|other| partitions.better(other, asker, Arc::clone(&unobserved)))).await?;
    let is_known_better = |index: usize| answers.iter().any(|better| better.get(index) == Some(&true));
    let kept = unobserved.iter().enumerate().filter(|(index, _)| !is_known_better(*index));
    nodes.extend(kept.map(|(_, node)| node.clone()));
    Ok(nodes)
}

/// The connected component of the objects with these uids. Only the component is held in
/// memory.
pub async fn component(partitions: &impl PartitionReader, uids: &[Uid]) -> Answer<Dump> {
    let roots = try_join_all(all(partitions).map(|at| partitions.nodes_of(at, uids.to_vec()))).await?;
    let mut dump = Dump::default();
    roots.into_iter().flatten().for_each(|node| take_in(&mut dump, node));
    let mut reached: BTreeSet<DumpId> = dump.nodes.keys().cloned().collect();
    let mut open: Vec<DumpId> = reached.iter().cloned().collect();
    while !open.is_empty() {
        let ids = Arc::new(open.split_off(open.len().saturating_sub(PAGE_SLOTS)));
        let answers = try_join_all(all(partitions).map(|at| partitions.around(at, Arc::clone(&ids)))).await?;
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

/// Adds a node. If several partitions show it, the best view of it wins.
fn take_in(dump: &mut Dump, (id, node): (DumpId, DumpNode)) {
    if dump.nodes.get(&id).is_none_or(|known| node < *known) {
        dump.nodes.insert(id, node);
    }
}

#[cfg(test)]
mod tests;
