//! Stores the metrics, and drops the series of removed resource types.
//!
//! A test cluster may create and remove thousands of CRDs with different names, each of
//! which would leave its series behind. So series with a type in their labels are stored
//! separately. They stay as long as their type is watched and expire afterwards. All other
//! series stay as long as the process, including zeros, on which alerts rely.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, Recorder as Record, SharedString, Unit,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use metrics_util::MetricKindMask;

use super::histogram::{Distribution, Histograms};
use super::names::Metric;

/// How long the series of a removed type stay. Prometheus must scrape the last values, and a
/// type that is only reinstalled must continue its counters.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// `metrics_process` counts this in whole seconds; the exporter replaces it with fractions.
pub(super) const PROCESS_CPU: &str = "process_cpu_seconds_total";

/// Stores all metrics. Clones share everything.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    permanent: PrometheusRecorder,
    by_type: PrometheusRecorder,
    /// The series of `by_type`, so that they can be kept alive.
    counters: DashMap<Key, Counter>,
    gauges: DashMap<Key, Gauge>,
    histograms: Histograms,
}

impl Recorder {
    /// A recorder in which the series of a removed type stay for this long.
    pub(super) fn new(idle_timeout: Duration) -> Self {
        let by_type = PrometheusBuilder::new().idle_timeout(MetricKindMask::ALL, Some(idle_timeout));
        Self(Arc::new(Inner {
            permanent: PrometheusBuilder::new().build_recorder(),
            by_type: by_type.build_recorder(),
            counters: DashMap::new(),
            gauges: DashMap::new(),
            histograms: Histograms::default(),
        }))
    }

    /// All series of a histogram together; `None` if nothing has been recorded.
    pub(super) fn distribution(&self, metric: &Metric) -> Option<Distribution> {
        self.0.histograms.total(metric)
    }

    /// Renders all metrics in Prometheus' text format.
    pub(super) fn render(&self) -> String {
        let mut page = self.0.permanent.handle().render();
        page.push_str(&self.0.by_type.handle().render());
        self.0.histograms.render(&mut page);
        page
    }

    /// Keeps the series of the watched types alive, which `is_watched` gets as values of the
    /// label `resource`. Drops the series of other types that have expired.
    pub(super) fn keep(&self, is_watched: impl Fn(&str) -> bool) {
        let keeps = |key: &Key| type_of(key).is_some_and(|resource| is_watched(&resource));
        self.0.counters.retain(|key, counter| {
            counter.increment(0);
            keeps(key)
        });
        self.0.gauges.retain(|key, gauge| {
            gauge.increment(0.0);
            keeps(key)
        });
        self.drop_expired();
    }

    /// Drops expired series. The crate does this when it renders, so this renders without a
    /// scrape.
    fn drop_expired(&self) {
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
        if let Some(known) = self.0.counters.get(key) {
            return known.clone();
        }
        let counter = self.0.by_type.register_counter(key, metadata);
        self.0.counters.insert(key.to_retained(), counter.clone());
        counter
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        if !is_of_type(key) {
            return self.0.permanent.register_gauge(key, metadata);
        }
        if let Some(known) = self.0.gauges.get(key) {
            return known.clone();
        }
        let gauge = self.0.by_type.register_gauge(key, metadata);
        self.0.gauges.insert(key.to_retained(), gauge.clone());
        gauge
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.0.histograms.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record;
    use super::*;
    use kube_gc_core::object::GroupResource;

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
}
