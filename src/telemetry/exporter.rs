//! Exports the metrics in Prometheus' text format.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::histogram::Distribution;
use super::names::{ALL, DELETION_LAG, Kind, Metric, REQUEST_DURATION, THREAD_CPU};
use super::record;
use super::recorder::{IDLE_TIMEOUT, PROCESS_CPU, Recorder};
use super::threads::ThreadTimes;

/// Renders `/metrics`. Clones share everything.
#[derive(Clone)]
pub struct Exporter {
    recorder: Recorder,
    process: metrics_process::Collector,
    threads: Arc<Mutex<ThreadTimes>>,
}

/// Why metrics cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error("cannot record metrics: {0}")]
pub struct InstallError(String);

impl Exporter {
    /// Installs the recorder of this process. Works once per process.
    ///
    /// # Errors
    /// If the process has a recorder already.
    pub fn install() -> Result<Self, InstallError> {
        let recorder = Recorder::new(IDLE_TIMEOUT);
        let exporter = Self::of(&recorder);
        metrics::set_global_recorder(recorder).map_err(|error| InstallError(error.to_string()))?;
        exporter.describe();
        Ok(exporter)
    }

    /// A separate recorder with its exporter, for tests that run in parallel. Pass it to
    /// `metrics::with_local_recorder`.
    ///
    /// # Errors
    /// Never.
    pub fn local() -> Result<(Recorder, Self), InstallError> {
        let recorder = Recorder::new(IDLE_TIMEOUT);
        let exporter = Self::of(&recorder);
        metrics::with_local_recorder(&recorder, || exporter.describe());
        Ok((recorder, exporter))
    }

    fn of(recorder: &Recorder) -> Self {
        Self {
            recorder: recorder.clone(),
            process: metrics_process::Collector::default(),
            threads: Arc::default(),
        }
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
    #[must_use]
    pub fn render(&self) -> String {
        self.process.collect();
        let mut page = self.recorder.render();
        self.render_cpu_time(&mut page);
        page
    }

    /// How long it took from the end of an owner to the DELETE of its dependent; `None` if there
    /// was none.
    #[must_use]
    pub fn deletion_lag(&self) -> Option<Distribution> {
        self.recorder.distribution(&DELETION_LAG)
    }

    /// How long the requests of all kinds took; `None` if there was none.
    #[must_use]
    pub fn requests(&self) -> Option<Distribution> {
        self.recorder.distribution(&REQUEST_DURATION)
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

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Queue, QueueMetrics};
    use super::*;
    use kube_gc_core::object::GroupResource;

    #[test]
    fn what_is_recorded_is_rendered_with_its_labels_and_help() {
        let (recorder, exporter) = Exporter::local().unwrap();
        let page = metrics::with_local_recorder(&recorder, || {
            let queue = QueueMetrics::new(Queue::AttemptToDelete);
            queue.added(1);
            queue.waited(Duration::from_millis(3));
            record::request(
                "delete",
                &GroupResource::parse("deployments.apps"),
                "200",
                Duration::from_millis(3),
            );
            record::graph(
                3,
                &record::GraphSize {
                    nodes: 10,
                    virtual_nodes: 2,
                    edges: 9,
                    bytes: 1000,
                    unresolved: 0,
                    outbox: 0,
                },
            );
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
        let (recorder, exporter) = Exporter::local().unwrap();
        let page = metrics::with_local_recorder(&recorder, || {
            loop {
                let page = exporter.render();
                if value(&page, "process_cpu_seconds_total").fract() > 0.0 {
                    break page;
                }
            }
        });
        assert_eq!(page.matches("# TYPE process_cpu_seconds_total counter").count(), 1, "{page}");
        let groups = super::super::threads::GROUPS.into_iter().filter(|_| cfg!(target_os = "linux"));
        for thread in groups {
            value(&page, &format!("kube_gc_thread_cpu_seconds_total{{thread=\"{thread}\"}}"));
        }
    }

    #[test]
    fn everything_that_is_recorded_is_declared_and_the_reverse() {
        let (recorder, exporter) = Exporter::local().unwrap();
        let page = metrics::with_local_recorder(&recorder, || {
            record::tests::record_everything();
            exporter.render()
        });
        for metric in ALL {
            assert!(
                page.contains(&format!("\n# TYPE {} ", metric.name)),
                "{} is never recorded",
                metric.name
            );
        }
        for name in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
            let declared = name.starts_with("process_") || ALL.iter().any(|metric| metric.name == name);
            assert!(declared, "{name} is not declared");
        }
    }
}
