//! Metrics of the queues: Kubernetes' workqueue family, and further ones.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::{Value, counter, float, gauge, histogram, names};

/// A work queue, with Kubernetes' name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// Changes from the watches that the graph has not applied.
    GraphChanges,
    /// The queue of the delete pool.
    AttemptToDelete,
    /// The queue of the delete pool for objects with very many owners.
    AttemptToDeleteLarge,
    /// The queue of the orphan pool.
    AttemptToOrphan,
}

impl Queue {
    /// All variants.
    pub const ALL: [Self; 4] =
        [Self::GraphChanges, Self::AttemptToDelete, Self::AttemptToDeleteLarge, Self::AttemptToOrphan];

    /// The queues that have workers.
    pub const POOLS: [Self; 3] = [Self::AttemptToDelete, Self::AttemptToDeleteLarge, Self::AttemptToOrphan];

    /// The name, as in the label `name` of the workqueue metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GraphChanges => "garbage_collector_graph_changes",
            Self::AttemptToDelete => "garbage_collector_attempt_to_delete",
            Self::AttemptToDeleteLarge => "garbage_collector_attempt_to_delete_large",
            Self::AttemptToOrphan => "garbage_collector_attempt_to_orphan",
        }
    }
}

/// The metrics of one queue. They are looked up once, because workers record for each object.
#[derive(Clone)]
pub struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished_work: Gauge,
    longest_running: Gauge,
    retries: Counter,
    processing: Gauge,
    delayed: Gauge,
    parked: Gauge,
    error_bytes: Gauge,
}

/// A periodic sample of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that workers are processing.
    pub processing: usize,
    /// Keys whose last attempt failed and that wait for the next one.
    pub delayed: usize,
    /// Keys that wait for a change in the cluster.
    pub parked: usize,
    /// Memory for the errors of failing keys.
    pub error_bytes: usize,
    /// Sum of the time that all work in progress has taken so far.
    pub unfinished: Duration,
    /// Time that the longest work in progress has taken so far.
    pub longest_running: Duration,
}

impl QueueMetrics {
    /// Looks up the metrics of a queue, and creates their series with the value zero.
    #[must_use]
    pub fn new(queue: Queue) -> Self {
        let name = || [Value::Static(queue.name())];
        Self {
            depth: gauge(&names::WORKQUEUE_DEPTH, name()),
            adds: counter(&names::WORKQUEUE_ADDS, name()),
            queue_duration: histogram(&names::WORKQUEUE_QUEUE_DURATION, name()),
            work_duration: histogram(&names::WORKQUEUE_WORK_DURATION, name()),
            unfinished_work: gauge(&names::WORKQUEUE_UNFINISHED_WORK, name()),
            longest_running: gauge(&names::WORKQUEUE_LONGEST_RUNNING, name()),
            retries: counter(&names::WORKQUEUE_RETRIES, name()),
            processing: gauge(&names::QUEUE_PROCESSING, name()),
            delayed: gauge(&names::QUEUE_DELAYED, name()),
            parked: gauge(&names::QUEUE_PARKED, name()),
            error_bytes: gauge(&names::QUEUE_ERROR_BYTES, name()),
        }
    }

    /// So many keys were queued.
    pub fn added(&self, count: usize) {
        self.adds.increment(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Sets the number of keys added since the queue was created, for queues that count
    /// themselves.
    pub fn added_in_total(&self, count: u64) {
        self.adds.absolute(count);
    }

    /// Records how long a key waited for a worker.
    pub fn waited(&self, duration: Duration) {
        self.queue_duration.record(duration);
    }

    /// Records that this many keys each waited this long for a worker.
    pub fn waited_each(&self, duration: Duration, count: usize) {
        self.queue_duration.record_many(duration, count);
    }

    /// Records how long the work on a key took.
    pub fn worked(&self, duration: Duration) {
        self.work_duration.record(duration);
    }

    /// Records that the work on this many keys took this long each.
    pub fn worked_each(&self, duration: Duration, count: usize) {
        self.work_duration.record_many(duration, count);
    }

    /// Sets the number of retries since the queue was created.
    pub fn retried_in_total(&self, count: u64) {
        self.retries.absolute(count);
    }

    /// Records a sample.
    pub fn sample(&self, sample: &QueueSample) {
        let QueueSample { ready, processing, delayed, parked, error_bytes, unfinished, longest_running } =
            *sample;
        self.depth.set(float(ready));
        self.processing.set(float(processing));
        self.delayed.set(float(delayed));
        self.parked.set(float(parked));
        self.error_bytes.set(float(error_bytes));
        self.unfinished_work.set(unfinished);
        self.longest_running.set(longest_running);
    }
}

impl std::fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueMetrics").finish_non_exhaustive()
    }
}

/// Counts a worker that panicked and was restarted.
pub fn worker_restarted(queue: Queue) {
    counter(&names::WORKER_RESTARTS, [Value::Static(queue.name())]).increment(1);
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    for queue in Queue::ALL {
        let _ = QueueMetrics::new(queue);
    }
    for queue in Queue::POOLS {
        counter(&names::WORKER_RESTARTS, [Value::Static(queue.name())]).increment(0);
    }
}
