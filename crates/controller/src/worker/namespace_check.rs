//! Warns when an owner lives in another namespace than its dependent.
//!
//! Every partition has to be asked for an absent owner. A task does that after the write, so
//! that no deletion waits for the answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use kube_gc_client::EventRecorder;
use kube_gc_core::graph::Report;
use kube_gc_core::object::{Digest, Identity, Namespace, OwnerReference, Uid};
use kube_gc_core::text::LISTED;
use kube_gc_observe::telemetry::record;

/// Objects that wait to be checked. Beyond that, a check is dropped and counted.
const WAITING: usize = 1024;
/// How long the answer for one uid is used again.
const LOCATED_FOR: Duration = Duration::from_secs(1);
/// How many answers are kept.
const LOCATED_AT_MOST: usize = 1024;

/// A handle to the task that checks. It never waits.
#[derive(Clone, Debug)]
pub struct NamespaceCheck {
    checks: mpsc::Sender<Check>,
}

/// An object, and its references to owners that are absent from its namespace.
#[derive(Debug)]
struct Check {
    dependent: Identity,
    references: Vec<OwnerReference>,
}

impl NamespaceCheck {
    /// The handle, and the task that must be run for it.
    pub fn new(
        graph: GraphHandle,
        event_recorder: EventRecorder,
        ending: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (checks, inbox) = mpsc::channel(WAITING);
        let task = async move { ending.run_until_cancelled(run(graph, event_recorder, inbox)).await };
        (Self { checks }, async { task.await.unwrap_or_default() })
    }

    /// A handle to no task.
    #[cfg(test)]
    pub fn silent() -> Self {
        Self { checks: mpsc::channel(1).0 }
    }

    /// Checks the first of these references of an object, later. A copy of each waits until then,
    /// so those whose text is too long for a real owner are left out.
    pub fn check<'a>(&self, dependent: &Identity, references: impl Iterator<Item = &'a OwnerReference>) {
        let references: Vec<_> =
            references.filter(|reference| reference.is_short()).take(LISTED).cloned().collect();
        if references.is_empty() {
            return;
        }
        if self.checks.try_send(Check { dependent: dependent.clone(), references }).is_err() {
            record::report_dropped();
        }
    }
}

async fn run(graph: GraphHandle, event_recorder: EventRecorder, mut inbox: mpsc::Receiver<Check>) {
    let mut located = Located::default();
    while let Some(Check { dependent, references }) = inbox.recv().await {
        for reference in references {
            let Ok(found) = located.find(&graph, &reference.uid).await else {
                // A partition has ended, and the process ends with it.
                return;
            };
            if found.iter().any(|namespace| Some(namespace) != dependent.namespace.as_ref()) {
                let dependent = dependent.clone();
                event_recorder.report(Report::NamespaceMismatch { dependent, reference });
            }
        }
    }
}

/// The namespaces of objects by uid, as the graph answered recently: an owner may have thousands of
/// dependents.
#[derive(Debug, Default)]
struct Located(HashMap<Digest, (Instant, Arc<[Namespace]>)>);

impl Located {
    async fn find(&mut self, graph: &GraphHandle, uid: &Uid) -> Result<Arc<[Namespace]>, PartitionEnded> {
        let (now, key) = (Instant::now(), Digest::of(uid));
        if let Some((at, found)) = self.0.get(&key)
            && now.duration_since(*at) < LOCATED_FOR
        {
            return Ok(Arc::clone(found));
        }
        let found = graph.locate(uid).await?;
        let found: Arc<[Namespace]> = found.into_iter().filter_map(|object| object.namespace).collect();
        if self.0.len() >= LOCATED_AT_MOST {
            self.0.clear();
        }
        self.0.insert(key, (now, Arc::clone(&found)));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::{identity, reference};

    /// Rule 7.9.
    #[test]
    fn thousands_of_references_of_one_object_are_not_kept() {
        let (checks, mut inbox) = mpsc::channel(1);
        let dependent = identity("a", "fat");
        let reference = reference(&identity("a", "owner"));
        let long = OwnerReference { uid: Uid::parse(&"u".repeat(1 << 20)).unwrap(), ..reference.clone() };
        let references = std::iter::repeat_n(&long, 10).chain(std::iter::repeat_n(&reference, 10_000));
        NamespaceCheck { checks }.check(&dependent, references);
        let waiting = inbox.try_recv().unwrap().references;
        assert_eq!(waiting.len(), LISTED);
        assert!(waiting.iter().all(OwnerReference::is_short));
    }
}
