//! Statistics of several measurements.

use serde::Serialize;

/// The minimum, the median and the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The minimum.
    pub min: f64,
    /// The median: the middle value, or the mean of the two middle values.
    pub median: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// The statistics of these values; `None` if there are none.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let sorted = sorted(numbers);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { min, median, max })
    }
}

/// A percentile by the nearest rank; `None` if there are no values.
pub fn percentile(numbers: &[f64], percent: usize) -> Option<f64> {
    let sorted = sorted(numbers);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn sorted(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The upper bound of the histogram bucket that contains this percentile. The buckets are (upper
/// bound, cumulative count), in order.
pub fn bucket_of_percentile(buckets: &[(f64, f64)], percent: f64) -> Option<f64> {
    let all = buckets.last()?.1;
    if all <= 0.0 {
        return None;
    }
    let rank = (all * percent / 100.0).ceil();
    buckets.iter().find(|(_, count)| *count >= rank).map(|(bound, _)| *bound)
}
