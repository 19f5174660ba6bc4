//! Exports the graph as text, page by page. It never holds the whole graph.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{Stream, try_unfold};

use kube_gc_controller::actors::graph_handle::{GraphHandle, PartitionEnded};
use kube_gc_core::graph::dump::{DumpFormat, DumpId, DumpNode, DumpWriter, Neighborhood};
use kube_gc_core::graph::{Cursor, Dump, Partition, PartitionId};
use kube_gc_core::object::Uid;

/// Node slots that a partition scans for one page: some milliseconds of its time, and less
/// than a megabyte of text.
const PAGE_SLOTS: usize = 1000;

type Answer<T> = Result<T, PartitionEnded>;

type Nodes = Vec<(DumpId, DumpNode)>;

/// Whom an export asks.
pub trait Partitions: Clone + Send + Sync + 'static {
    /// The number of partitions.
    fn count(&self) -> u16;

    /// How many node slots, nodes or ids a question is about at most.
    fn page(&self) -> usize {
        PAGE_SLOTS
    }

    /// Asks one partition.
    fn ask<A: Send + 'static>(
        &self,
        at: PartitionId,
        question: impl FnOnce(&Partition) -> A + Send + 'static,
    ) -> impl Future<Output = Answer<A>> + Send;
}

impl Partitions for GraphHandle {
    fn count(&self) -> u16 {
        u16::try_from(self.partitions().count()).unwrap_or(u16::MAX)
    }

    async fn ask<A: Send + 'static>(
        &self,
        at: PartitionId,
        question: impl FnOnce(&Partition) -> A + Send + 'static,
    ) -> Answer<A> {
        Self::ask(self, at, |partition, _| question(partition)).await
    }
}

/// Asks every partition but one.
async fn ask_all<A: Send + 'static>(
    partitions: &impl Partitions,
    but: Option<PartitionId>,
    question: impl Fn(&Partition) -> A + Clone + Send + 'static,
) -> Answer<Vec<A>> {
    let all = (0..partitions.count()).map(PartitionId).filter(|at| Some(*at) != but);
    try_join_all(all.map(|at| partitions.ask(at, question.clone()))).await
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
struct GraphExport<P> {
    partitions: P,
    writer: DumpWriter,
    next: Next,
}

/// Exports the whole graph in pieces: every node that has an edge, then every edge. A piece
/// is produced when the reader asks for it, and nothing is locked between two pieces.
///
/// The export is no consistent snapshot: each object is shown as it was at some moment, and
/// objects that come or go during the export may be missing.
pub fn whole<P: Partitions>(
    partitions: P,
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

impl<P: Partitions> GraphExport<P> {
    async fn step(&mut self, language: DumpFormat, text: &mut String) -> Answer<()> {
        let (first, slots) = (PartitionId(0), self.partitions.page());
        self.next = match self.next {
            Next::Begin => {
                self.writer = DumpWriter::new(language, text);
                Next::Nodes(first, None)
            }
            Next::Nodes(of, after) => {
                let page =
                    self.partitions.ask(of, move |partition| partition.page_of_nodes(after, slots)).await?;
                let nodes = best(&self.partitions, of, page.items).await?;
                self.writer.nodes(nodes.iter().map(|(id, node)| (id, node)), text);
                match (page.next, self.following(of)) {
                    (Some(after), _) => Next::Nodes(of, Some(after)),
                    (None, Some(following)) => Next::Nodes(following, None),
                    (None, None) => Next::Edges(first, None),
                }
            }
            Next::Edges(of, after) => {
                let page =
                    self.partitions.ask(of, move |partition| partition.page_of_edges(after, slots)).await?;
                self.writer.edges(&page.items, text);
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
async fn best(partitions: &impl Partitions, asker: PartitionId, nodes: Nodes) -> Answer<Nodes> {
    let (mut nodes, unobserved): (Nodes, Nodes) = nodes.into_iter().partition(|(_, node)| node.is_observed());
    if unobserved.is_empty() {
        return Ok(nodes);
    }
    let unobserved = Arc::new(unobserved);
    let shown = Arc::clone(&unobserved);
    let better = move |partition: &Partition| partition.shows_better(asker, &shown);
    let answers = ask_all(partitions, Some(asker), better).await?;
    let is_known_better = |index: usize| answers.iter().any(|better| better.get(index) == Some(&true));
    let kept = unobserved.iter().enumerate().filter(|(index, _)| !is_known_better(*index));
    nodes.extend(kept.map(|(_, node)| node.clone()));
    Ok(nodes)
}

/// The connected component of the objects with these uids. Only the component is held in
/// memory.
pub async fn component(partitions: &impl Partitions, uids: &[Uid]) -> Answer<Dump> {
    let uids = uids.to_vec();
    let roots = ask_all(partitions, None, move |partition| partition.nodes_of(&uids)).await?;
    let mut dump = Dump::default();
    roots.into_iter().flatten().for_each(|node| take_in(&mut dump, node));
    let mut reached: BTreeSet<DumpId> = dump.nodes.keys().cloned().collect();
    let mut open: Vec<DumpId> = reached.iter().cloned().collect();
    while !open.is_empty() {
        let ids = Arc::new(open.split_off(open.len().saturating_sub(partitions.page())));
        let answers = ask_all(partitions, None, move |partition| partition.neighborhood(&ids)).await?;
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
