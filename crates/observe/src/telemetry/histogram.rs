//! Histograms that count into buckets immediately.
//!
//! `metrics-exporter-prometheus` keeps each recorded value until the next scrape. At a
//! million events per second, that takes much memory, and sorting the values into buckets
//! takes much time. Here, recording is two atomic additions, and recording a thousand equal
//! values costs as much as one.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{HistogramFn, Key};
use serde::Serialize;

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
pub(super) struct Buckets {
    bounds: &'static [f64],
    /// One count for each bound, and one for values above all bounds.
    counts: Box<[AtomicU64]>,
    /// The bits of a floating-point number.
    sum: AtomicU64,
}

impl Buckets {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
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

impl Distribution {
    /// All of these together; `None` without any.
    pub(super) fn of<'a>(series: impl Iterator<Item = &'a Buckets>) -> Option<Self> {
        let mut total: Option<Self> = None;
        for Buckets { bounds, counts, .. } in series {
            let sums = total.get_or_insert_with(|| Self { bounds, counts: vec![0; counts.len()] });
            for (sum, count) in sums.counts.iter_mut().zip(counts) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        total
    }
}

impl Buckets {
    /// Renders a series in Prometheus' text format.
    pub(super) fn render(&self, key: &Key, page: &mut String) {
        let (name, labels) = (key.name(), written(key, None));
        let mut total = 0;
        let bounds = self.bounds.iter().map(|bound| format_bound(*bound)).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(page, "{name}_bucket{} {total}", written(key, Some(&bound)));
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let _ = writeln!(page, "{name}_sum{labels} {sum}\n{name}_count{labels} {total}");
    }
}

/// The labels of a series, perhaps with the bound of a bucket, in braces.
pub(super) fn written(key: &Key, bound: Option<&str>) -> String {
    let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let labels = key.labels().map(|label| (label.key(), escaped(label.value())));
    let labels = labels.chain(bound.map(|bound| ("le", bound.to_owned())));
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
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
    use metrics::Label;

    use super::*;

    const BOUNDS: &[f64] = &[1e-8, 0.001, 0.01, 0.5, 1.0, 1000.0];

    #[test]
    fn records_are_cumulative_and_many_are_as_good_as_each() {
        let (one, other) = (Buckets::new(BOUNDS), Buckets::new(BOUNDS));
        one.record_many(0.002, 1000);
        (0..10).for_each(|_| one.record(0.2));
        one.record(1e9);
        other.record(1.0);
        let mut page = String::new();
        for (name, buckets) in [("a", one), ("a\"b\\c\nd", other)] {
            buckets.render(&Key::from_parts("x", vec![Label::new("name", name)]), &mut page);
        }
        for line in [
            r#"x_bucket{name="a",le="1e-08"} 0"#,
            r#"x_bucket{name="a",le="0.001"} 0"#,
            r#"x_bucket{name="a",le="0.01"} 1000"#,
            r#"x_bucket{name="a",le="1000"} 1010"#,
            r#"x_bucket{name="a",le="+Inf"} 1011"#,
            r#"x_sum{name="a"} 1000000004"#,
            r#"x_count{name="a"} 1011"#,
            r#"x_bucket{name="a\"b\\c\nd",le="0.5"} 0"#,
            // A value that is a bound is within it.
            r#"x_bucket{name="a\"b\\c\nd",le="1"} 1"#,
        ] {
            assert!(page.lines().any(|found| found == line), "no line {line:?} in:\n{page}");
        }
    }

    #[test]
    fn a_total_has_all_series() {
        let series = [Buckets::new(BOUNDS), Buckets::new(BOUNDS)];
        series.iter().for_each(|buckets| buckets.record(0.002));
        series[1].record(1e9);
        let counts = Distribution::of(series.iter()).unwrap().counts;
        assert_eq!(counts, [0, 0, 2, 0, 0, 0, 1]);
        assert_eq!(Distribution::of([].into_iter()), None);
    }

    #[test]
    fn small_bounds_are_written_as_kubernetes_writes_them() {
        let written = [1e-8, 1e-5, 2.5e-5, 1e-4, 0.001, 1.0, 1000.0].map(format_bound);
        assert_eq!(written, ["1e-08", "1e-05", "2.5e-05", "0.0001", "0.001", "1", "1000"]);
    }
}
