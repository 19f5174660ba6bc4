//! Recording the queues: Kubernetes' workqueue family, and what it does not show.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::{Value, counter, float, gauge, histogram, names};

/// A queue, by the name that Kubernetes gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// What the watches have told and the graph has not taken in.
    GraphChanges,
    /// The delete pool's.
    AttemptToDelete,
    /// The delete pool's, for objects that name very many owners.
    AttemptToDeleteLarge,
    /// The orphan pool's.
    AttemptToOrphan,
}

impl Queue {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::GraphChanges, Self::AttemptToDelete, Self::AttemptToDeleteLarge, Self::AttemptToOrphan];

    /// Those that have workers.
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

/// The metrics of one queue, looked up once: workers record for each object.
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

/// What is sampled of a queue from time to time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that are being worked on.
    pub processing: usize,
    /// Keys whose last try failed and that wait for the next one.
    pub delayed: usize,
    /// Keys that wait for the world to change.
    pub parked: usize,
    /// How many bytes the errors of failing keys take up.
    pub error_bytes: usize,
    /// How long all work under way has taken so far, added up.
    pub unfinished: Duration,
    /// How long the longest work under way has taken so far.
    pub longest_running: Duration,
}

impl QueueMetrics {
    /// The metrics of a queue; they are there, as zeros, from now on.
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

    /// So many keys have been queued since the queue was made: for queues that
    /// count themselves.
    pub fn added_in_total(&self, count: u64) {
        self.adds.absolute(count);
    }

    /// A key came to a worker after this time.
    pub fn waited(&self, duration: Duration) {
        self.queue_duration.record(duration);
    }

    /// So many keys came to a worker after this time each.
    pub fn waited_each(&self, duration: Duration, count: usize) {
        self.queue_duration.record_many(duration, count);
    }

    /// The work on a key ended after this time.
    pub fn worked(&self, duration: Duration) {
        self.work_duration.record(duration);
    }

    /// The work on so many keys ended after this time each.
    pub fn worked_each(&self, duration: Duration, count: usize) {
        self.work_duration.record_many(duration, count);
    }

    /// So many retries have there been since the queue was made.
    pub fn retried_in_total(&self, count: u64) {
        self.retries.absolute(count);
    }

    /// How the queue is now.
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

/// A worker panicked and was started again.
pub fn worker_restarted(queue: Queue) {
    counter(&names::WORKER_RESTARTS, [Value::Static(queue.name())]).increment(1);
}

/// The series of this part, as zeros.
pub(super) fn zeros() {
    for queue in Queue::ALL {
        let _ = QueueMetrics::new(queue);
    }
    for queue in Queue::POOLS {
        counter(&names::WORKER_RESTARTS, [Value::Static(queue.name())]).increment(0);
    }
}
