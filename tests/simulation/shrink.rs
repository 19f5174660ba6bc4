//! Reduces a failing run: leaves out steps as long as it fails in the same way.

use std::time::{Duration, Instant};

use kube_gc_observe::telemetry::Exporter;

use super::run::{Failure, Spec, run};

/// The time limit.
const AT_MOST: Duration = Duration::from_secs(20);

/// The smallest run found that fails in the same way, and its failure.
pub fn shrink(spec: &Spec, failure: Failure, exporter: &Exporter) -> (Spec, Failure) {
    let began = Instant::now();
    // Steps after the failure do not matter.
    let all = Spec { only: Some((0..failure.step).collect()), ..spec.clone() };
    let (mut best, mut failure) = better(&all, &failure, exporter).unwrap_or((spec.clone(), failure));
    let count = |spec: &Spec| spec.only.as_ref().map_or(0, |only| only.len());
    let mut size = count(&best).div_ceil(2);
    while size > 0 {
        let before = count(&best);
        let mut start = 0;
        while start < count(&best) && began.elapsed() < AT_MOST {
            let steps = best.only.iter().flatten().copied().enumerate();
            let left =
                steps.filter(|(place, _)| !(start..start + size).contains(place)).map(|(_, step)| step);
            let candidate = Spec { only: Some(left.collect()), ..best.clone() };
            match better(&candidate, &failure, exporter) {
                Some(smaller) => (best, failure) = smaller,
                None => start += size,
            }
        }
        if began.elapsed() >= AT_MOST {
            break;
        }
        if count(&best) == before || size > 1 {
            size /= 2;
        }
    }
    (best, failure)
}

/// The candidate, if it fails in the same way.
fn better(candidate: &Spec, known: &Failure, exporter: &Exporter) -> Option<(Spec, Failure)> {
    let failure = run(candidate, exporter).err()?;
    (kind(&failure) == kind(known)).then(|| (candidate.clone(), failure))
}

/// The kind of a failure, without its details.
fn kind(failure: &Failure) -> &str {
    failure.what.split(':').next().unwrap_or_default()
}
