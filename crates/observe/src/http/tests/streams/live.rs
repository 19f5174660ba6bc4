//! A collector whose object changes on demand.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::super::*;
use kube_gc_insight::{Neighbourhood, ObjectName, Shown, State};

/// A graph with one object, and how often it was asked.
pub struct Live {
    pub graph: Arc<Graph>,
    /// How long a summary takes.
    pub summary_takes: Duration,
    pub summaries: AtomicUsize,
}

pub struct Graph {
    /// The dependents that the object waits for.
    waits_for: AtomicUsize,
    /// How long an answer takes.
    takes: Duration,
    looks: AtomicUsize,
}

impl Live {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::slow(Duration::ZERO))
    }

    pub fn slow(takes: Duration) -> Self {
        let [waits_for, summaries, looks] = [(); 3].map(|()| AtomicUsize::new(0));
        let graph = Graph { waits_for, takes, looks };
        Self { graph: Arc::new(graph), summary_takes: Duration::ZERO, summaries }
    }

    /// The object changes, perhaps.
    pub fn change(&self, waits_for: usize) {
        self.graph.waits_for.store(waits_for, Ordering::Relaxed);
    }

    pub fn looks(&self) -> usize {
        self.graph.looks.load(Ordering::Relaxed)
    }
}

impl Graph {
    pub fn page(&self) -> NeighbourhoodPage {
        let name = ObjectName {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: Some("pods".to_owned()),
            namespace: Some("a".to_owned()),
            name: "line\nbreak\u{202e}".to_owned(),
            uid: UID.to_owned(),
        };
        let waits_for = self.waits_for.load(Ordering::Relaxed);
        let root = Shown { name, state: State::DeletingDependents, waits_for, ..Shown::default() };
        let shown = Neighbourhood { nodes: vec![root], ..Neighbourhood::default() };
        NeighbourhoodPage { shown, incomplete: Vec::new(), next: None }
    }
}

impl Streamed for Live {
    fn summary(&self) -> BoxFuture<'_, Result<SummaryPage, Ended>> {
        self.summaries.fetch_add(1, Ordering::Relaxed);
        let summary = SummaryPage { role: "alone", ..SummaryPage::default() };
        tokio::time::sleep(self.summary_takes).map(|()| Ok(summary)).boxed()
    }

    fn look<'a>(&'a self, query: &'a ObjectQuery) -> BoxFuture<'a, Result<Option<NeighbourhoodPage>, Ended>> {
        let is_known = query.uid == Uid::parse(UID).unwrap();
        async move {
            let page = self.graph.page();
            tokio::time::sleep(self.graph.takes).await;
            self.graph.looks.fetch_add(1, Ordering::Relaxed);
            Ok(is_known.then_some(page))
        }
        .boxed()
    }
}
