//! Where records go, and how series come to an end.
//!
//! Types come and go: a test cluster defines and removes thousands of CRDs of
//! different names, and each leaves its series behind. So what is labelled by
//! type is kept apart: as long as a type is watched its series are kept alive, and
//! afterwards they fall asleep and are dropped. Everything else stays for as long
//! as the process does, zeros included, which alerts rely on.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, Recorder as Record, SharedString, Unit,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use metrics_util::MetricKindMask;

use super::histogram::Histograms;

/// How long a series outlives its type: what was counted last must have been
/// scraped, and a type that is only reinstalled goes on counting.
pub(super) const LINGERS: Duration = Duration::from_secs(600);

/// Counted by the crate for the process in whole seconds; the exporter has fractions.
pub(super) const PROCESS_CPU: &str = "process_cpu_seconds_total";

/// Takes all records. Clones share everything.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lasting: PrometheusRecorder,
    of_types: PrometheusRecorder,
    /// What was asked for of `of_types`, so that it can be kept alive.
    counters: DashMap<Key, Counter>,
    gauges: DashMap<Key, Gauge>,
    histograms: Histograms,
}

impl Recorder {
    /// One whose series of types outlive them for so long.
    pub(super) fn new(lingering: Duration) -> Self {
        let of_types = PrometheusBuilder::new().idle_timeout(MetricKindMask::ALL, Some(lingering));
        Self(Arc::new(Inner {
            lasting: PrometheusBuilder::new().build_recorder(),
            of_types: of_types.build_recorder(),
            counters: DashMap::new(),
            gauges: DashMap::new(),
            histograms: Histograms::default(),
        }))
    }

    /// Everything, in Prometheus' text format.
    pub(super) fn render(&self) -> String {
        let mut page = self.0.lasting.handle().render();
        page.push_str(&self.0.of_types.handle().render());
        self.0.histograms.render(&mut page);
        page
    }

    /// Keeps the series of these types, given as in the label `resource`, and lets the
    /// others fall asleep. Drops what has slept for long enough.
    pub(super) fn keep(&self, is_watched: impl Fn(&str) -> bool) {
        let keeps = |key: &Key| typed(key).is_some_and(|resource| is_watched(&resource));
        self.0.counters.retain(|key, counter| {
            counter.increment(0);
            keeps(key)
        });
        self.0.gauges.retain(|key, gauge| {
            gauge.increment(0.0);
            keeps(key)
        });
        self.drop_sleeping();
    }

    /// The exporter does it when it renders, whether anybody scrapes or not.
    fn drop_sleeping(&self) {
        drop(self.0.of_types.handle().render());
    }
}

/// Whether a series is about a type, or a part of the API, that may go.
fn is_of_type(key: &Key) -> bool {
    key.labels().any(|label| matches!(label.key(), "resource" | "group"))
}

/// The type that a series is about, as `resource.group`.
fn typed(key: &Key) -> Option<String> {
    let value = |name: &str| key.labels().find(|label| label.key() == name).map(Label::value);
    let resource = value("resource")?;
    Some(match value("group") {
        None | Some("") => resource.to_owned(),
        Some(group) => format!("{resource}.{group}"),
    })
}

impl Record for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.lasting.describe_counter(name.clone(), unit, help.clone());
        self.0.of_types.describe_counter(name, unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.lasting.describe_gauge(name.clone(), unit, help.clone());
        self.0.of_types.describe_gauge(name, unit, help);
    }

    // Histograms know their own help.
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        if key.name() == PROCESS_CPU {
            return Counter::noop();
        }
        if !is_of_type(key) {
            return self.0.lasting.register_counter(key, metadata);
        }
        if let Some(known) = self.0.counters.get(key) {
            return known.clone();
        }
        let counter = self.0.of_types.register_counter(key, metadata);
        self.0.counters.insert(key.to_retained(), counter.clone());
        counter
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        if !is_of_type(key) {
            return self.0.lasting.register_gauge(key, metadata);
        }
        if let Some(known) = self.0.gauges.get(key) {
            return known.clone();
        }
        let gauge = self.0.of_types.register_gauge(key, metadata);
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

    /// How many series a page has, help texts not counted.
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

    /// Fails if the series of a type outlive it: a cluster on which tests run defines
    /// and removes thousands of CRDs.
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

    /// Alerts look at zeros: `increase` does not see the first event of a series that
    /// comes with it.
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
