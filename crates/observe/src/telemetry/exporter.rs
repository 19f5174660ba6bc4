//! Exports the metrics in Prometheus' text format, and drops the series of removed resource types.
//!
//! A test cluster may create and remove thousands of CRDs with different names, each of
//! which would leave its series behind. So series with a type in their labels are stored
//! separately. They stay as long as their type is watched and expire afterwards. All other
//! series stay as long as the process, including zeros, on which alerts rely.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, Recorder as Record, SetRecorderError,
    SharedString, Unit,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use metrics_util::MetricKindMask;
use rustix::time::{ClockId, clock_gettime};

use super::histogram::{Distribution, Histograms};
use super::labels::THREADS;
use super::names::{ALL, Kind, Metric, THREAD_CPU};
use super::record;

/// How long the series of a removed type stay. Prometheus must scrape the last values, and a
/// type that is only reinstalled must continue its counters.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// `metrics_process` counts this in whole seconds; [`Exporter::render`] replaces it with fractions.
const PROCESS_CPU: &str = "process_cpu_seconds_total";

/// Stores all metrics. Clones share everything.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Recorders>);

#[derive(Debug)]
struct Recorders {
    permanent: PrometheusRecorder,
    by_type: PrometheusRecorder,
    /// The series of `by_type`, so that they can be kept alive.
    counters: DashMap<Key, Counter>,
    gauges: DashMap<Key, Gauge>,
    histograms: Histograms,
}

/// Renders `/metrics`. Clones share everything.
#[derive(Clone, Debug)]
pub struct Exporter {
    recorder: Recorder,
    process: metrics_process::Collector,
    threads: Arc<Mutex<ThreadTimes>>,
}

impl Exporter {
    /// Installs the recorder of this process. Works once per process.
    ///
    /// # Errors
    /// If the process has a recorder already.
    pub fn install() -> Result<Self, SetRecorderError<Recorder>> {
        let (recorder, exporter) = Self::local();
        metrics::set_global_recorder(recorder)?;
        Ok(exporter)
    }

    /// A separate recorder with its exporter, for tests that run in parallel. Pass it to
    /// `metrics::with_local_recorder`.
    pub fn local() -> (Recorder, Self) {
        let recorder = Recorder::new(IDLE_TIMEOUT);
        let (process, threads) = (metrics_process::Collector::default(), Arc::default());
        let exporter = Self { recorder: recorder.clone(), process, threads };
        metrics::with_local_recorder(&recorder, || exporter.describe());
        (recorder, exporter)
    }

    fn describe(&self) {
        for &Metric { name, kind, unit, help, .. } in ALL {
            match kind {
                Kind::Counter => metrics::describe_counter!(name, unit, help),
                Kind::Gauge => metrics::describe_gauge!(name, unit, help),
                Kind::Histogram(_) => metrics::describe_histogram!(name, unit, help),
            }
        }
        self.process.describe();
        record::build_info();
    }

    /// Renders the page in Prometheus' text format.
    pub fn render(&self) -> String {
        self.process.collect();
        let mut page = self.recorder.render();
        self.render_cpu_time(&mut page);
        page
    }

    /// All series of a histogram together; `None` if nothing has been recorded.
    pub fn distribution(&self, metric: &Metric) -> Option<Distribution> {
        self.recorder.0.histograms.total(metric)
    }

    /// Renders CPU times in fractions of seconds, because the recorder's counters are integers.
    fn render_cpu_time(&self, page: &mut String) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.update();
        let time = clock_gettime(ClockId::ProcessCPUTime);
        // Writing to a string cannot fail.
        let _ = write!(
            page,
            "# HELP {PROCESS_CPU} Total user and system CPU time spent in seconds.\n\
             # TYPE {PROCESS_CPU} counter\n{PROCESS_CPU} {}.{:09}\n\n",
            time.tv_sec, time.tv_nsec
        );
        let Metric { name, help, .. } = THREAD_CPU;
        for (number, (thread, seconds)) in threads.seconds().enumerate() {
            if number == 0 {
                let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
            }
            let _ = writeln!(page, "{name}{{thread=\"{thread}\"}} {seconds}");
        }
        page.push('\n');
    }

    /// Keeps the series of the watched types, which `is_watched` gets as values of the label
    /// `resource`. The series of other types end after a while. It must be called
    /// periodically, or the series of removed types accumulate.
    pub fn keep(&self, is_watched: impl Fn(&str) -> bool) {
        self.recorder.keep(is_watched);
    }
}

impl Recorder {
    /// A recorder in which the series of a removed type stay for this long.
    fn new(idle_timeout: Duration) -> Self {
        let by_type = PrometheusBuilder::new().idle_timeout(MetricKindMask::ALL, Some(idle_timeout));
        Self(Arc::new(Recorders {
            permanent: PrometheusBuilder::new().build_recorder(),
            by_type: by_type.build_recorder(),
            counters: DashMap::new(),
            gauges: DashMap::new(),
            histograms: Histograms::default(),
        }))
    }

    fn render(&self) -> String {
        let mut page = self.0.permanent.handle().render() + &self.0.by_type.handle().render();
        self.0.histograms.render(&mut page);
        page
    }

    /// Keeps the series of the watched types alive. Drops the series of other types that have expired.
    fn keep(&self, is_watched: impl Fn(&str) -> bool) {
        let keeps = |key: &Key| type_of(key).is_some_and(|resource| is_watched(&resource));
        self.0.counters.retain(|key, counter| {
            counter.increment(0);
            keeps(key)
        });
        self.0.gauges.retain(|key, gauge| {
            gauge.increment(0.0);
            keeps(key)
        });
        // The crate drops expired series when it renders.
        drop(self.0.by_type.handle().render());
    }
}

/// Whether a series belongs to a resource type or an API group, which can be removed.
fn is_of_type(key: &Key) -> bool {
    key.labels().any(|label| matches!(label.key(), "resource" | "group"))
}

/// The resource type of a series, as `resource.group`.
fn type_of(key: &Key) -> Option<String> {
    let value = |name: &str| key.labels().find(|label| label.key() == name).map(Label::value);
    let resource = value("resource")?;
    Some(match value("group") {
        None | Some("") => resource.to_owned(),
        Some(group) => format!("{resource}.{group}"),
    })
}

impl Record for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.permanent.describe_counter(name.clone(), unit, help.clone());
        self.0.by_type.describe_counter(name, unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.permanent.describe_gauge(name.clone(), unit, help.clone());
        self.0.by_type.describe_gauge(name, unit, help);
    }

    // Histograms take the help text from their declaration.
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        if key.name() == PROCESS_CPU {
            return Counter::noop();
        }
        if !is_of_type(key) {
            return self.0.permanent.register_counter(key, metadata);
        }
        let new = || self.0.by_type.register_counter(key, metadata);
        self.0.counters.entry(key.to_retained()).or_insert_with(new).clone()
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        if !is_of_type(key) {
            return self.0.permanent.register_gauge(key, metadata);
        }
        let new = || self.0.by_type.register_gauge(key, metadata);
        self.0.gauges.entry(key.to_retained()).or_insert_with(new).clone()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.0.histograms.get(key)
    }
}

/// The group of a thread.
fn group_of(name: &str, is_main: bool) -> usize {
    // The threads of a pool have a number at the end of their names.
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', ' ']);
    let name = match name {
        // Runs the actors and all requests about single objects.
        _ if is_main => "requests",
        // The background thread of jemalloc.
        "jemalloc_bg_thd" => "allocator",
        name => name,
    };
    THREADS.iter().position(|group| *group == name).unwrap_or(THREADS.len() - 1)
}

/// The CPU time of one thread at one point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    thread: u32,
    group: usize,
    nanoseconds: u64,
}

/// The CPU time of this process's threads by purpose. Threads that have ended still count, so it never
/// falls.
///
/// A single thread runs all requests about single objects, and another one all watches.
/// Either can be a bottleneck that the sum over all threads does not show: on a machine with
/// many cores, the process looks idle while that thread is always busy.
#[derive(Debug, Default)]
pub(super) struct ThreadTimes {
    last: HashMap<u32, u64>,
    /// In nanoseconds, by group.
    sums: [u64; THREADS.len()],
    /// Whether the operating system reports CPU times of threads.
    known: bool,
}

impl ThreadTimes {
    /// Reads the CPU times. Does nothing if the operating system does not report them.
    pub(super) fn update(&mut self) {
        self.add(&read());
    }

    /// Seconds by group; empty if the operating system does not report them.
    pub(super) fn seconds(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let groups = THREADS.into_iter().zip(self.sums).filter(|_| self.known);
        #[allow(clippy::cast_precision_loss)]
        groups.map(|(group, sum)| (group, sum as f64 / 1e9))
    }

    fn add(&mut self, readings: &[Reading]) {
        self.known |= !readings.is_empty();
        let mut now = HashMap::with_capacity(readings.len());
        for &Reading { thread, group, nanoseconds } in readings {
            // A lower number means that a new thread reuses the id of one that has ended.
            let before = self.last.get(&thread).copied().filter(|before| *before <= nanoseconds);
            self.sums[group] += nanoseconds - before.unwrap_or(0);
            now.insert(thread, nanoseconds);
        }
        self.last = now;
    }
}

#[cfg(target_os = "linux")]
fn read() -> Vec<Reading> {
    let threads = procfs::process::Process::myself().and_then(|process| process.tasks());
    let Ok(threads) = threads else { return Vec::new() };
    let ticks_per_second = procfs::ticks_per_second();
    // A thread that cannot be read has just ended.
    let readings = threads.filter_map(|task| {
        let task = task.ok()?;
        let stat = task.stat().ok()?;
        // Not every kernel has `schedstat`, which counts nanoseconds.
        let nanoseconds = match task.schedstat() {
            Ok(precise) => precise.sum_exec_runtime,
            Err(_) => (stat.utime + stat.stime).checked_mul(1_000_000_000)?.checked_div(ticks_per_second)?,
        };
        let thread = u32::try_from(task.tid).ok()?;
        let group = group_of(&stat.comm, thread == std::process::id());
        Some(Reading { thread, group, nanoseconds })
    });
    readings.collect()
}

#[cfg(not(target_os = "linux"))]
fn read() -> Vec<Reading> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::super::{Queue, QueueMetrics, QueueSample};
    use super::*;
    use kube_gc_core::graph::Stats;
    use kube_gc_core::object::GroupResource;

    #[test]
    fn what_is_recorded_is_rendered_with_its_labels_and_help() {
        let (recorder, exporter) = Exporter::local();
        let page = metrics::with_local_recorder(&recorder, || {
            let queue = QueueMetrics::new(Queue::AttemptToDelete);
            queue.added(1);
            queue.sample(&QueueSample::default());
            queue.waited(Duration::from_millis(3), 1);
            let resource = GroupResource::parse("deployments.apps");
            record::request("delete", &resource, "200", Duration::from_millis(3));
            record::graph(3, &Stats { nodes: 10, ..Stats::default() }, 0);
            exporter.render()
        });
        for line in [
            "# HELP workqueue_depth Keys that wait for a worker.",
            "# TYPE workqueue_queue_duration_seconds histogram",
            r#"workqueue_adds_total{name="garbage_collector_attempt_to_delete"} 1"#,
            r#"workqueue_queue_duration_seconds_bucket{name="garbage_collector_attempt_to_delete",le="0.005"} 1"#,
            r#"workqueue_queue_duration_seconds_bucket{name="garbage_collector_attempt_to_delete",le="0.001"} 0"#,
            r#"kube_gc_requests_total{verb="delete",resource="deployments.apps",code="200"} 1"#,
            r#"kube_gc_graph_nodes{partition="3"} 10"#,
        ] {
            assert!(page.lines().any(|found| found == line), "no line {line:?} in:\n{page}");
        }
        assert!(page.contains("kube_gc_build_info{version=\""), "{page}");
        assert!(page.contains("\nprocess_resident_memory_bytes "), "{page}");
    }

    fn value(page: &str, series: &str) -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in:\n{page}")).parse().unwrap()
    }

    /// An idle collector uses a few milliseconds per minute, which whole seconds cannot show.
    #[test]
    fn processor_time_has_fractions_of_seconds() {
        let (recorder, exporter) = Exporter::local();
        let page = metrics::with_local_recorder(&recorder, || {
            loop {
                let page = exporter.render();
                if value(&page, "process_cpu_seconds_total").fract() > 0.0 {
                    break page;
                }
            }
        });
        assert_eq!(page.matches("# TYPE process_cpu_seconds_total counter").count(), 1, "{page}");
        let groups = THREADS.into_iter().filter(|_| cfg!(target_os = "linux"));
        for thread in groups {
            value(&page, &format!("kube_gc_thread_cpu_seconds_total{{thread=\"{thread}\"}}"));
        }
    }

    /// The number of series on a page.
    fn series(page: &str) -> usize {
        page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
    }

    fn happens_to(group_resource: &GroupResource) {
        let GroupResource { group, resource } = group_resource;
        record::request("list", group_resource, "200", Duration::from_millis(1));
        record::resource_sync_error(group, "v1", resource);
        record::resource_synced(group, "v1", resource, false);
        record::undiscovered(group, Some("v1"), true);
        record::decision("delete", "deleted", group_resource);
    }

    /// Fails if the series of removed types accumulate.
    #[test]
    fn types_that_come_and_go_leave_nothing_behind() {
        let recorder = Recorder::new(Duration::ZERO);
        metrics::with_local_recorder(&recorder, || {
            record::zeros();
            happens_to(&GroupResource::parse("pods"));
            let mut sizes = Vec::new();
            for round in 0..300 {
                let of_a_test = GroupResource::parse(&format!("things-{round}.test-{round}.example.com"));
                happens_to(&of_a_test);
                recorder.keep(|resource| resource == "pods" || resource == of_a_test.to_string());
                recorder.keep(|resource| resource == "pods");
                sizes.push(series(&recorder.render()));
            }
            assert_eq!(sizes[10], sizes[299], "{sizes:?}");
            assert_eq!(recorder.0.counters.len(), 3, "those of pods");
        });
    }

    #[test]
    fn the_series_of_a_type_that_is_watched_count_on_however_quiet_it_is() {
        let recorder = Recorder::new(Duration::ZERO);
        metrics::with_local_recorder(&recorder, || {
            let pods = GroupResource::parse("pods");
            record::decision("delete", "deleted", &pods);
            let counter = recorder.0.counters.iter().next().map(|entry| entry.value().clone()).unwrap();
            (0..10).for_each(|_| recorder.keep(|resource| resource == "pods"));
            counter.increment(1);
            record::decision("delete", "deleted", &pods);
            let page = recorder.render();
            assert!(page.contains(r#"outcome="deleted",resource="pods"} 3"#), "{page}");
        });
    }

    /// Alerts rely on zeros: `increase` misses the first event of a series that starts with it.
    #[test]
    fn zeros_stay() {
        let recorder = Recorder::new(Duration::ZERO);
        metrics::with_local_recorder(&recorder, || {
            record::zeros();
            let before = series(&recorder.render());
            (0..10).for_each(|_| recorder.keep(|_| false));
            assert_eq!(series(&recorder.render()), before);
        });
    }

    #[test]
    fn threads_are_grouped_by_what_they_are_for() {
        assert_eq!(THREADS[group_of("kube-gc", true)], "requests");
        for (name, of) in [
            ("watches", "watches"),
            ("lists-3", "lists"),
            ("graph 12", "graph"),
            ("jemalloc_bg_thd", "allocator"),
            ("kube-gc", "other"),
            ("7", "other"),
        ] {
            assert_eq!(THREADS[group_of(name, false)], of, "{name}");
        }
    }

    #[test]
    fn the_sum_of_a_group_never_falls() {
        let mut times = ThreadTimes::default();
        times.add(&[]);
        assert_eq!(times.seconds().count(), 0, "the system does not tell");
        let lists = group_of("lists", false);
        for (readings, seconds) in [
            (vec![(1, 1), (2, 2)], 3.0),
            // One has ended.
            (vec![(2, 2)], 3.0),
            // Another one has its id.
            (vec![(2, 1)], 4.0),
            (vec![], 4.0),
            (vec![(2, 1)], 5.0),
        ] {
            let reading = |&(thread, seconds): &(u32, u64)| Reading {
                thread,
                group: lists,
                nanoseconds: seconds * 1_000_000_000,
            };
            times.add(&readings.iter().map(reading).collect::<Vec<_>>());
            assert_eq!(times.seconds().find(|(group, _)| *group == "lists"), Some(("lists", seconds)));
        }
        assert_eq!(times.last.len(), 1, "those that have ended are forgotten");
    }
}
