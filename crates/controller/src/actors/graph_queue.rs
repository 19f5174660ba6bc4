//! Changes between the watches and the graph, measured as a queue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use kube_gc_core::graph::{PartitionId, WatchEvent};
use kube_gc_observe::telemetry::{EventLag, Queue, QueueMetrics, QueueSample};

/// Counts the changes of all monitors that the graph has not applied yet. Its metrics use the name
/// that Kubernetes gave this queue. Clones share one count.
#[derive(Clone, Debug)]
pub struct GraphQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: QueueMetrics,
    lag: EventLag,
    /// Changes that are not applied yet.
    changes: AtomicUsize,
    /// Partitions that apply some of them: since when, and how many.
    working: Mutex<BTreeMap<PartitionId, (Instant, usize)>>,
}

/// A change, and when it arrived.
pub type Arrived = (Instant, WatchEvent);

/// Counts changes until they are applied, or discarded with their monitor.
#[derive(Debug)]
pub struct Waiting {
    count: usize,
    queue: GraphQueue,
}

/// A partition applies changes until this is dropped.
#[derive(Debug)]
pub struct Applying {
    /// When changes arrived, and how many.
    arrivals: Vec<(Instant, usize)>,
    began: Instant,
    partition: PartitionId,
    changes: Waiting,
}

impl Default for GraphQueue {
    fn default() -> Self {
        Self(Arc::new(Inner {
            metrics: QueueMetrics::new(Queue::GraphChanges),
            lag: EventLag::default(),
            changes: AtomicUsize::new(0),
            working: Mutex::default(),
        }))
    }
}

impl GraphQueue {
    /// No changes.
    pub fn waiting(&self) -> Waiting {
        Waiting { count: 0, queue: self.clone() }
    }

    /// The number of changes that the graph has not applied yet.
    pub fn len(&self) -> usize {
        self.0.changes.load(Ordering::SeqCst)
    }

    pub fn sample(&self) {
        let now = Instant::now();
        let working: Vec<(Instant, usize)> = self.working().values().copied().collect();
        let processing = working.iter().map(|(_, count)| count).sum();
        let running = || working.iter().map(|(since, _)| now - *since);
        self.0.metrics.sample(&QueueSample {
            ready: self.len().saturating_sub(processing),
            processing,
            unfinished: running().sum(),
            longest_running: running().max().unwrap_or_default(),
            ..QueueSample::default()
        });
    }

    fn working(&self) -> MutexGuard<'_, BTreeMap<PartitionId, (Instant, usize)>> {
        // Entries are consistent whenever the lock is free.
        self.0.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// One more change waits.
    pub fn add(&mut self) {
        self.count += 1;
        self.queue.0.changes.fetch_add(1, Ordering::SeqCst);
        self.queue.0.metrics.added(1);
    }

    /// Counts some of the changes apart.
    pub fn split(&mut self, count: usize) -> Self {
        let count = count.min(self.count);
        self.count -= count;
        Self { count, queue: self.queue.clone() }
    }

    /// A partition begins to apply these changes.
    pub fn begin(self, partition: PartitionId, changes: &[Arrived]) -> Applying {
        let (queue, began) = (&self.queue, Instant::now());
        let arrivals = changes.chunk_by(|(one, _), (other, _)| one == other);
        let arrivals: Vec<_> = arrivals.map(|together| (together[0].0, together.len())).collect();
        for &(came, count) in &arrivals {
            queue.0.metrics.waited(began - came, count);
        }
        queue.working().insert(partition, (began, self.count));
        Applying { arrivals, began, partition, changes: self }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.0.changes.fetch_sub(self.count, Ordering::SeqCst);
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        let Self { arrivals, began, partition, changes: Waiting { queue, .. } } = self;
        let now = Instant::now();
        let count: usize = arrivals.iter().map(|(_, count)| count).sum();
        // The changes were applied one by one; each took its share.
        let each = (now - *began) / u32::try_from(count).unwrap_or(u32::MAX).max(1);
        queue.0.metrics.worked(each, count);
        for &(came, count) in &*arrivals {
            queue.0.lag.took(now - came, count);
        }
        queue.working().remove(partition);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use kube_gc_observe::telemetry::Exporter;

    fn changes(count: usize) -> Vec<Arrived> {
        vec![(Instant::now(), WatchEvent::Init { resource_version: None }); count]
    }

    /// The queue has the whole workqueue family of metrics, like every other queue.
    #[tokio::test(start_paused = true)]
    async fn a_partition_that_hangs_shows_in_the_metrics() {
        let (recorder, exporter) = Exporter::local();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let queue = GraphQueue::default();
        let (mut waiting, come) = (queue.waiting(), changes(2));
        (0..4).for_each(|_| waiting.add());
        let more = waiting.split(2);
        tokio::time::advance(Duration::from_millis(3)).await;
        let applying = more.begin(PartitionId(1), &come);
        tokio::time::advance(Duration::from_secs(8)).await;
        queue.sample();
        let page = exporter.render();
        let has = |page: &str, line: &str| {
            assert!(page.lines().any(|found| found == line), "no line {line:?} in:\n{page}");
        };
        for (metric, value) in [
            ("workqueue_depth", "2"),
            ("workqueue_adds_total", "4"),
            ("workqueue_retries_total", "0"),
            ("workqueue_unfinished_work_seconds", "8"),
            ("workqueue_longest_running_processor_seconds", "8"),
            ("workqueue_queue_duration_seconds_count", "2"),
            ("workqueue_queue_duration_seconds_sum", "0.006"),
            ("workqueue_work_duration_seconds_count", "0"),
        ] {
            has(&page, &format!("{metric}{{name=\"garbage_collector_graph_changes\"}} {value}"));
        }
        drop(applying);
        assert_eq!(queue.len(), 2, "what is applied counts no longer");
        drop(waiting);
        assert_eq!(queue.len(), 0, "nor does what is discarded with its monitor");
        queue.sample();
        let page = exporter.render();
        for (metric, value) in [
            ("workqueue_unfinished_work_seconds", "0"),
            ("workqueue_longest_running_processor_seconds", "0"),
            ("workqueue_work_duration_seconds_sum", "8"),
            ("workqueue_work_duration_seconds_count", "2"),
        ] {
            has(&page, &format!("{metric}{{name=\"garbage_collector_graph_changes\"}} {value}"));
        }
        has(&page, "kube_gc_event_lag_seconds_count 2");
        has(&page, "kube_gc_event_lag_seconds_sum 16.006");
    }
}
