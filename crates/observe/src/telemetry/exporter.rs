//! Exports the metrics in Prometheus' text format, and drops the series of removed resource types.
//!
//! A test cluster may create and remove thousands of CRDs with different names, each of
//! which would leave its series behind. So series with a type in their labels stay as long as their
//! type is watched, and expire afterwards. All other series stay as long as the process, including
//! zeros, on which alerts rely.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use metrics::atomics::AtomicU64;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, Recorder as Record, SetRecorderError,
    SharedString, Unit,
};

use super::histogram::{Buckets, Distribution, written};
use super::labels::THREADS;
use super::names::{ALL, Kind, Metric, THREAD_CPU};
use super::record;

/// How long the series of a removed type stay. Prometheus must scrape the last values, and a
/// type that is only reinstalled must continue its counters.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Stores all metrics. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Store>);

#[derive(Debug, Default)]
struct Store {
    series: RwLock<BTreeMap<Key, Series>>,
    /// The help texts.
    help: RwLock<BTreeMap<KeyName, SharedString>>,
}

#[derive(Debug)]
struct Series {
    value: Value,
    /// Whether somebody has asked for it since the last look.
    is_used: AtomicBool,
    /// Since when nobody watches its type.
    unwatched: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Value {
    Counter(Arc<AtomicU64>),
    /// The bits of a floating-point number.
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Buckets>),
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
        let recorder = Recorder::default();
        let (process, threads) = (metrics_process::Collector::default(), Arc::default());
        let exporter = Self { recorder: recorder.clone(), process, threads };
        metrics::with_local_recorder(&recorder, || exporter.describe());
        (recorder, exporter)
    }

    fn describe(&self) {
        for Metric { name, help, .. } in ALL {
            self.recorder.describe(KeyName::from(*name), (*help).into());
        }
        self.process.describe();
        record::build_info();
    }

    /// Renders the page in Prometheus' text format.
    pub fn render(&self) -> String {
        self.process.collect();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.update();
        for (thread, seconds) in threads.seconds() {
            record::gauge(&THREAD_CPU, [thread.into()]).set(seconds);
        }
        self.recorder.render()
    }

    /// All series of a histogram together; `None` if nothing has been recorded.
    pub fn distribution(&self, metric: &Metric) -> Option<Distribution> {
        let all = self.recorder.0.series.read().unwrap_or_else(PoisonError::into_inner);
        let of_metric = all.iter().filter(|(key, _)| key.name() == metric.name);
        Distribution::of(of_metric.filter_map(|(_, series)| match &series.value {
            Value::Histogram(buckets) => Some(&**buckets),
            Value::Counter(_) | Value::Gauge(_) => None,
        }))
    }

    /// Keeps the series of the watched types, which `is_watched` gets as values of the label
    /// `resource`. The series of other types end after a while. It must be called
    /// periodically, or the series of removed types accumulate.
    pub fn keep(&self, is_watched: impl Fn(&str) -> bool) {
        self.recorder.keep(IDLE_TIMEOUT, is_watched);
    }
}

impl Recorder {
    /// The value of a series, which is new unless it is there.
    fn value(&self, key: &Key, new: impl FnOnce() -> Value) -> Value {
        if let Some(series) = self.0.series.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            series.is_used.store(true, Ordering::Relaxed);
            return series.value.clone();
        }
        let mut all = self.0.series.write().unwrap_or_else(PoisonError::into_inner);
        let series = || Series { value: new(), is_used: AtomicBool::new(true), unwatched: None };
        all.entry(key.to_retained()).or_insert_with(series).value.clone()
    }

    fn describe(&self, name: KeyName, help: SharedString) {
        self.0.help.write().unwrap_or_else(PoisonError::into_inner).insert(name, help);
    }

    fn render(&self) -> String {
        let all = self.0.series.read().unwrap_or_else(PoisonError::into_inner);
        let help = self.0.help.read().unwrap_or_else(PoisonError::into_inner);
        let (mut page, mut last) = (String::new(), "");
        for (key, Series { value, .. }) in &*all {
            let name = key.name();
            if name != last {
                // A test holds the names against this convention.
                let kind = match value {
                    Value::Histogram(_) => "histogram",
                    _ if name.ends_with("_total") => "counter",
                    _ => "gauge",
                };
                let help = help.get(name).map_or("", |help| help);
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
                last = name;
            }
            let (labels, number) = match value {
                Value::Histogram(buckets) => {
                    buckets.render(key, &mut page);
                    continue;
                }
                Value::Counter(value) => (written(key, None), value.load(Ordering::Relaxed).to_string()),
                Value::Gauge(bits) => {
                    (written(key, None), f64::from_bits(bits.load(Ordering::Relaxed)).to_string())
                }
            };
            let _ = writeln!(page, "{name}{labels} {number}");
        }
        page
    }

    /// Keeps the series of the watched types, and for so long those of other types that nobody has used.
    fn keep(&self, idle_timeout: Duration, is_watched: impl Fn(&str) -> bool) {
        let now = Instant::now();
        let mut all = self.0.series.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|key, series| {
            let is_used = series.is_used.swap(false, Ordering::Relaxed);
            if is_used || !is_of_type(key) || type_of(key).is_some_and(|resource| is_watched(&resource)) {
                series.unwatched = None;
                return true;
            }
            now.duration_since(*series.unwatched.get_or_insert(now)) < idle_timeout
        });
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
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(name, help);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(name, help);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(name, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match self.value(key, || Value::Counter(Arc::default())) {
            Value::Counter(value) => Counter::from_arc(value),
            Value::Gauge(_) | Value::Histogram(_) => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match self.value(key, || Value::Gauge(Arc::default())) {
            Value::Gauge(value) => Gauge::from_arc(value),
            Value::Counter(_) | Value::Histogram(_) => Gauge::noop(),
        }
    }

    /// An undeclared histogram records nothing.
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let bounds = ALL.iter().find_map(|metric| match metric.kind {
            Kind::Histogram(bounds) if metric.name == key.name() => Some(bounds),
            _ => None,
        });
        debug_assert!(bounds.is_some(), "{} is not declared as a histogram", key.name());
        let Some(bounds) = bounds else { return Histogram::noop() };
        match self.value(key, || Value::Histogram(Arc::new(Buckets::new(bounds)))) {
            Value::Histogram(buckets) => Histogram::from_arc(buckets),
            Value::Counter(_) | Value::Gauge(_) => Histogram::noop(),
        }
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
    use super::super::names::DECISIONS;
    use super::super::{Queue, QueueMetrics, QueueSample};
    use super::*;
    use kube_gc_core::object::GroupResource;

    #[test]
    fn what_is_recorded_is_rendered_with_its_labels_and_help() {
        let (recorder, exporter) = Exporter::local();
        let page = metrics::with_local_recorder(&recorder, || {
            let queue = QueueMetrics::new(Queue::AttemptToDelete);
            queue.added(1);
            queue.sample(&QueueSample::default());
            queue.waited(Duration::from_millis(3));
            let resource = GroupResource::parse("deployments.apps");
            record::request("delete", &resource, "200", Duration::from_millis(3));
            record::graph(3, &record::GraphSize { nodes: 10, ..record::GraphSize::default() });
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
        let recorder = Recorder::default();
        metrics::with_local_recorder(&recorder, || {
            record::zeros();
            happens_to(&GroupResource::parse("pods"));
            let mut sizes = Vec::new();
            for round in 0..300 {
                let of_a_test = GroupResource::parse(&format!("things-{round}.test-{round}.example.com"));
                happens_to(&of_a_test);
                recorder
                    .keep(Duration::ZERO, |resource| resource == "pods" || resource == of_a_test.to_string());
                recorder.keep(Duration::ZERO, |resource| resource == "pods");
                sizes.push(series(&recorder.render()));
            }
            assert_eq!(sizes[10], sizes[299], "{sizes:?}");
        });
    }

    #[test]
    fn the_series_of_a_type_that_is_watched_count_on_however_quiet_it_is() {
        let recorder = Recorder::default();
        metrics::with_local_recorder(&recorder, || {
            let pods = GroupResource::parse("pods");
            record::decision("delete", "deleted", &pods);
            let counter = record::counter(&DECISIONS, ["delete".into(), "deleted".into(), "pods".into()]);
            (0..10).for_each(|_| recorder.keep(Duration::ZERO, |resource| resource == "pods"));
            counter.increment(1);
            record::decision("delete", "deleted", &pods);
            let page = recorder.render();
            assert!(page.contains(r#"outcome="deleted",resource="pods"} 3"#), "{page}");
        });
    }

    /// Alerts rely on zeros: `increase` misses the first event of a series that starts with it.
    #[test]
    fn zeros_stay() {
        let recorder = Recorder::default();
        metrics::with_local_recorder(&recorder, || {
            record::zeros();
            let before = series(&recorder.render());
            (0..10).for_each(|_| recorder.keep(Duration::ZERO, |_| false));
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
