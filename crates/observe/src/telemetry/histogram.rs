//! Histograms that count into buckets immediately.
//!
//! `metrics-exporter-prometheus` keeps each recorded value until the next scrape. At a
//! million events per second, that takes much memory, and sorting the values into buckets
//! takes much time. Here, recording is two atomic additions, and recording a thousand equal
//! values costs as much as one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{Histogram, HistogramFn, Key, Label};
use serde::Serialize;

use super::names::{ALL, Kind, Metric};

/// All histograms in use.
#[derive(Debug, Default)]
pub(super) struct Histograms(RwLock<BTreeMap<Key, Arc<Buckets>>>);

/// How often values were recorded, by bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// The upper bounds of the buckets, ascending.
    #[serde(rename = "le")]
    pub bounds: &'static [f64],
    /// One count for each bound, and one for values above all bounds. They are not cumulative.
    pub counts: Vec<u64>,
}

/// One series of a histogram.
#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    /// One count for each bound, and one for values above all bounds.
    counts: Box<[AtomicU64]>,
    /// The bits of a floating-point number.
    sum: AtomicU64,
}

impl Buckets {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        let times = u64::try_from(count).unwrap_or(u64::MAX);
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        #[allow(clippy::cast_precision_loss)]
        let more = value * count as f64;
        let add = |bits| Some((f64::from_bits(bits) + more).to_bits());
        // The closure never returns `None`, so this cannot fail.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Histograms {
    /// The histogram of this key. An undeclared histogram records nothing.
    pub(super) fn get(&self, key: &Key) -> Histogram {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Histogram::from_arc(Arc::clone(known));
        }
        let bounds = ALL.iter().find_map(|metric| match metric.kind {
            Kind::Histogram(bounds) if metric.name == key.name() => Some(bounds),
            _ => None,
        });
        let Some(bounds) = bounds else {
            debug_assert!(false, "{} is not declared as a histogram", key.name());
            return Histogram::noop();
        };
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry(key.to_retained()).or_insert_with(|| Arc::new(Buckets::new(bounds)));
        Histogram::from_arc(Arc::clone(entry))
    }

    /// All series of a histogram together; `None` if it has none.
    pub(super) fn total(&self, metric: &Metric) -> Option<Distribution> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut total: Option<Distribution> = None;
        for (_, buckets) in all.iter().filter(|(key, _)| key.name() == metric.name) {
            let Distribution { counts, .. } = total.get_or_insert_with(|| Distribution {
                bounds: buckets.bounds,
                counts: vec![0; buckets.counts.len()],
            });
            for (sum, count) in counts.iter_mut().zip(&buckets.counts) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        total
    }

    /// Renders all histograms in Prometheus' text format.
    pub(super) fn render(&self, page: &mut String) {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let histograms = ALL.iter().filter(|metric| matches!(metric.kind, Kind::Histogram(_)));
        for Metric { name, help, .. } in histograms {
            let mut series = all.iter().filter(|(key, _)| key.name() == *name).peekable();
            if series.peek().is_none() {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} histogram\n");
            for (key, buckets) in series {
                buckets.render(name, key, page);
            }
            page.push('\n');
        }
    }
}

impl Buckets {
    fn render(&self, name: &str, key: &Key, page: &mut String) {
        let labels = labels(key.labels());
        let separator = if labels.is_empty() { "" } else { "," };
        let mut total = 0;
        let bounds = self.bounds.iter().map(|bound| format_bound(*bound)).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            let _ = writeln!(page, "{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {total}");
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(page, "{name}_sum{labels} {sum}\n{name}_count{labels} {total}");
    }
}

fn labels<'a>(labels: impl Iterator<Item = &'a Label>) -> String {
    let mut text = String::new();
    for label in labels {
        let separator = if text.is_empty() { "" } else { "," };
        let value = label.value().replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        let _ = write!(text, "{separator}{}=\"{value}\"", label.key());
    }
    text
}

/// Formats a bound as Kubernetes' own components do: `le` is a string, and Prometheus
/// aggregates only equal strings.
fn format_bound(bound: f64) -> String {
    if bound >= 1e-4 {
        return bound.to_string();
    }
    let text = format!("{bound:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[(&'static str, &'static str)]) -> Key {
        let labels: Vec<_> = labels.iter().map(|(name, value)| Label::new(*name, *value)).collect();
        Key::from_parts(super::super::names::WORKQUEUE_QUEUE_DURATION.name, labels)
    }

    #[test]
    fn records_are_cumulative_and_many_are_as_good_as_each() {
        let histograms = Histograms::default();
        let one = histograms.get(&of(&[("name", "a")]));
        one.record_many(0.002, 1000);
        (0..10).for_each(|_| histograms.get(&of(&[("name", "a")])).record(0.2));
        one.record(1e9);
        histograms.get(&of(&[("name", "a\"b\\c\nd")])).record(1.0);
        let mut page = String::new();
        histograms.render(&mut page);
        for line in [
            r#"workqueue_queue_duration_seconds_bucket{name="a",le="1e-08"} 0"#,
            r#"workqueue_queue_duration_seconds_bucket{name="a",le="0.001"} 0"#,
            r#"workqueue_queue_duration_seconds_bucket{name="a",le="0.01"} 1000"#,
            r#"workqueue_queue_duration_seconds_bucket{name="a",le="1000"} 1010"#,
            r#"workqueue_queue_duration_seconds_bucket{name="a",le="+Inf"} 1011"#,
            r#"workqueue_queue_duration_seconds_sum{name="a"} 1000000004"#,
            r#"workqueue_queue_duration_seconds_count{name="a"} 1011"#,
            r#"workqueue_queue_duration_seconds_bucket{name="a\"b\\c\nd",le="0.5"} 0"#,
            // A value that is a bound is within it.
            r#"workqueue_queue_duration_seconds_bucket{name="a\"b\\c\nd",le="1"} 1"#,
        ] {
            assert!(page.lines().any(|found| found == line), "no line {line:?} in:\n{page}");
        }
    }

    #[test]
    fn a_total_has_all_series_and_only_those_of_its_metric() {
        use super::super::names::{DELETION_LAG, WORKQUEUE_QUEUE_DURATION};
        let histograms = Histograms::default();
        for name in ["a", "b"] {
            histograms.get(&of(&[("name", name)])).record(0.002);
        }
        histograms.get(&of(&[("name", "b")])).record(1e9);
        let Distribution { bounds, counts } = histograms.total(&WORKQUEUE_QUEUE_DURATION).unwrap();
        assert_eq!(counts.len(), bounds.len() + 1);
        let place = bounds.iter().position(|bound| *bound == 0.005).unwrap();
        assert_eq!((counts[place], counts.last(), counts.iter().sum::<u64>()), (2, Some(&1), 3));
        assert_eq!(histograms.total(&DELETION_LAG), None);
    }

    #[test]
    fn small_bounds_are_written_as_kubernetes_writes_them() {
        let written = [1e-8, 1e-5, 2.5e-5, 1e-4, 0.001, 1.0, 1000.0].map(format_bound);
        assert_eq!(written, ["1e-08", "1e-05", "2.5e-05", "0.0001", "0.001", "1", "1000"]);
    }
}
