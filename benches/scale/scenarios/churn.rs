//! Pods are created and deleted.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::{Course, Point, paced};
use crate::subject::Subject;

const PER_SECOND: u64 = 500;
/// The interval at which memory is read.
const EVERY: Duration = Duration::from_secs(1);

/// The results of churn.
#[derive(Clone, Debug, Serialize)]
pub struct Churn {
    pub seconds: f64,
    /// How many Pods were created. Equally many were deleted.
    pub pods: u64,
    /// The CPU time in cores.
    pub cores: f64,
    /// Memory over time.
    pub course: Course,
    /// By how many bytes resident memory grows in an hour: the slope of the regression line,
    /// without the first quarter.
    pub slope: f64,
}

/// 500 pods created and 500 deleted a second.
pub async fn churn(subject: &Subject, lasting: Duration) -> Result<Churn> {
    subject.seen(None).await?;
    let (before, began) = (subject.cpu()?, Instant::now());
    let feeder = &subject.feeder;
    let mut course = Course::default();
    let changing = paced(PER_SECOND, lasting, |turn| async move {
        feeder.create().await;
        feeder.delete(feeder.cluster.victim(turn)).await;
    });
    let pods = tokio::select! {
        pods = changing => pods,
        failed = course.follow(subject, EVERY) => match failed? {},
    };
    let last = feeder.create().await;
    subject.seen(Some(last)).await?;
    let (took, cpu) = (began.elapsed().as_secs_f64(), subject.cpu()?.since(before));
    subject.graph(feeder.cluster.objects() + 1, None, feeder.cluster.links()).await?;
    let slope = slope(&course.resident[course.resident.len() / 4..]) * 3600.0;
    Ok(Churn { seconds: took, pods, cores: cpu.all.as_secs_f64() / took, course, slope })
}

/// The slope of the regression line.
pub fn slope(points: &[Point]) -> f64 {
    let count = points.len().max(1) as f64;
    let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    if spread > 0.0 { common / spread } else { 0.0 }
}
