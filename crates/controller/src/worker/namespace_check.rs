//! Warns when an owner lives in another namespace than its dependent.
//!
//! Every partition has to be asked for an absent owner. A task does that after the write, so
//! that no deletion waits for the answer.

use tokio::sync::mpsc;

use crate::actors::graph_handle::GraphHandle;
use kube_gc_client::EventRecorder;
use kube_gc_core::graph::Report;
use kube_gc_core::object::{Identity, OwnerReference};
use kube_gc_core::text::LISTED;
use kube_gc_observe::telemetry::record;

/// Objects that wait to be checked. Beyond that, a check is dropped and counted.
const WAITING: usize = 1024;
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
    pub fn new(graph: GraphHandle, event_recorder: EventRecorder) -> (Self, impl Future<Output = ()> + Send) {
        let (checks, inbox) = mpsc::channel(WAITING);
        (Self { checks }, run(graph, event_recorder, inbox))
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
    while let Some(Check { dependent, references }) = inbox.recv().await {
        for reference in references {
            // An error means that a partition has ended, and the process ends with it.
            let Ok(found) = graph.locate(&reference.uid).await else { return };
            let is_elsewhere =
                |object: &Identity| object.namespace.is_some() && object.namespace != dependent.namespace;
            if found.iter().any(is_elsewhere) {
                let dependent = dependent.clone();
                event_recorder.report(Report::NamespaceMismatch { dependent, reference });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::identity;
    use kube_gc_core::object::Uid;

    /// Rule 7.9.
    #[test]
    fn thousands_of_references_of_one_object_are_not_kept() {
        let (checks, mut inbox) = mpsc::channel(1);
        let dependent = identity("a", "fat");
        let reference = identity("a", "owner").reference();
        let long = OwnerReference { uid: Uid::parse(&"u".repeat(1 << 20)).unwrap(), ..reference.clone() };
        let references = std::iter::repeat_n(&long, 10).chain(std::iter::repeat_n(&reference, 10_000));
        NamespaceCheck { checks }.check(&dependent, references);
        let waiting = inbox.try_recv().unwrap().references;
        assert_eq!(waiting.len(), LISTED);
        assert!(waiting.iter().all(OwnerReference::is_short));
    }
}
