//! Exports the graph as text, page by page. It never holds the whole graph.

use std::collections::{BTreeSet, VecDeque};
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

/// What a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nodes,
    Edges,
}

/// All that is kept of an export between two pages.
#[derive(Debug)]
struct GraphExport<P> {
    partitions: P,
    /// Writes until the end is written.
    writer: Option<DumpWriter>,
    /// What is left, each with the position behind its last page.
    left: VecDeque<(Part, PartitionId, Option<Cursor>)>,
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
    let mut beginning = String::new();
    let writer = Some(DumpWriter::new(language, &mut beginning));
    let all = (0..partitions.count()).map(PartitionId);
    let of = |part| all.clone().map(move |partition| (part, partition, None));
    let left = of(Part::Nodes).chain(of(Part::Edges)).collect();
    let export = GraphExport { partitions, writer, left };
    try_unfold((export, beginning), async |(mut export, mut text)| {
        // Most nodes of a graph may have no edge. An empty page must not end the stream.
        while text.is_empty() {
            if !export.step(&mut text).await? {
                return Ok(None);
            }
        }
        Ok(Some((text, (export, String::new()))))
    })
}

impl<P: Partitions> GraphExport<P> {
    /// Writes one page; false if there is none.
    async fn step(&mut self, text: &mut String) -> Answer<bool> {
        let Some((part, of, after)) = self.left.pop_front() else {
            return Ok(self.writer.take().map(|writer| writer.end(text)).is_some());
        };
        let Some(writer) = &mut self.writer else { return Ok(false) };
        let (partitions, slots) = (&self.partitions, self.partitions.page());
        let next = match part {
            Part::Nodes => {
                let page = partitions.ask(of, move |partition| partition.page_of_nodes(after, slots)).await?;
                let nodes = best(partitions, of, page.items).await?;
                writer.nodes(nodes.iter().map(|(id, node)| (id, node)), text);
                page.next
            }
            Part::Edges => {
                let page = partitions.ask(of, move |partition| partition.page_of_edges(after, slots)).await?;
                writer.edges(&page.items, text);
                page.next
            }
        };
        if next.is_some() {
            self.left.push_front((part, of, next));
        }
        Ok(true)
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
