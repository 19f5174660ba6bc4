//! Reduces a failing run: leaves out steps as long as it fails in the same way.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kube_gc_observe::telemetry::Exporter;

use super::run::{Failure, Spec, run};

/// The time limit.
const AT_MOST: Duration = Duration::from_secs(20);

/// The smallest run found that fails in the same way, and its failure.
pub fn shrink(spec: &Spec, failure: Failure, exporter: &Exporter) -> (Spec, Failure) {
    let began = Instant::now();
    let mut best = (spec.clone(), failure);
    // Steps after the failure do not matter.
    let mut shorter = best.0.clone();
    shorter.steps = Some(best.1.step);
    best = better(best, shorter, exporter);
    let steps = best.0.steps.unwrap_or_default();
    let mut size = steps.div_ceil(2);
    while size > 0 && began.elapsed() < AT_MOST {
        let mut smaller = false;
        let mut start = 0;
        while start < steps && began.elapsed() < AT_MOST {
            let part: BTreeSet<_> = (start..(start + size).min(steps)).collect();
            start += size;
            if part.is_subset(&best.0.without) {
                continue;
            }
            let mut candidate = best.0.clone();
            candidate.without.extend(part);
            let before = best.0.without.len();
            best = better(best, candidate, exporter);
            smaller |= best.0.without.len() > before;
        }
        if !smaller || size > 1 {
            size /= 2;
        }
    }
    best
}

fn better(best: (Spec, Failure), candidate: Spec, exporter: &Exporter) -> (Spec, Failure) {
    match run(&candidate, exporter) {
        Err(failure) if kind(&failure) == kind(&best.1) => (candidate, failure),
        _ => best,
    }
}

/// The kind of a failure, without its details.
fn kind(failure: &Failure) -> &str {
    failure.what.split(':').next().unwrap_or_default()
}
