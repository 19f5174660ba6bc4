//! The way from the watches into the graph, as a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::telemetry::{Queue, QueueMetrics, QueueSample};

/// Counts the changes of all monitors that are not in the graph yet, under the
/// name that Kubernetes gave this queue. Clones share one count.
#[derive(Clone, Debug)]
pub struct GraphQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: QueueMetrics,
    waiting: AtomicUsize,
    applying: AtomicUsize,
}

impl GraphQueue {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        let metrics = QueueMetrics::new(Queue::GraphChanges);
        Self(Arc::new(Inner { metrics, waiting: AtomicUsize::new(0), applying: AtomicUsize::new(0) }))
    }

    /// A change has come from a watch.
    pub fn added(&self) {
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
        self.0.metrics.added();
    }

    /// Changes were sent to their partition; the first of them waited so long.
    pub fn sent(&self, count: usize, waited: Duration) {
        self.0.waiting.fetch_sub(count, Ordering::Relaxed);
        self.0.applying.fetch_add(count, Ordering::Relaxed);
        self.0.metrics.waited(waited);
    }

    /// Changes are in the graph.
    pub fn applied(&self, count: usize, took: Duration) {
        self.0.applying.fetch_sub(count, Ordering::Relaxed);
        self.0.metrics.worked(took);
    }

    /// Changes were given up with their monitor: so many waiting, so many sent.
    pub fn dropped(&self, waiting: usize, applying: usize) {
        self.0.waiting.fetch_sub(waiting, Ordering::Relaxed);
        self.0.applying.fetch_sub(applying, Ordering::Relaxed);
    }

    /// How many changes are not in the graph yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed) + self.0.applying.load(Ordering::Relaxed)
    }

    /// Sets the gauges.
    pub fn sample(&self) {
        self.0.metrics.sample(&QueueSample {
            ready: self.0.waiting.load(Ordering::Relaxed),
            processing: self.0.applying.load(Ordering::Relaxed),
            ..QueueSample::default()
        });
    }
}
