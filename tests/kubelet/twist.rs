//! Whether a difference would be found: kube-gc is set a little differently from the kubelet, and some
//! world must show it.

use std::time::Duration;

use anyhow::Result;

use super::case::Case;
use super::compare::differences;
use super::pods::PodState;
use super::run::Stage;

/// So many worlds are tried for each.
const WORLDS: u64 = 200;

/// A change to what kube-gc is told, and not the kubelet.
type Twist = (&'static str, fn(&mut Case));

const TWISTS: [Twist; 12] = [
    ("C1: another minimum age", |case| {
        let age = &mut case.rules.containers.min_age;
        *age = if age.is_zero() { Duration::from_secs(3600) } else { Duration::ZERO };
    }),
    ("C3: a pod that is gone exists", |case| stand(case, PodState::Absent, PodState::Running)),
    ("C3: an evicted pod has merely failed", |case| stand(case, PodState::Evicted, PodState::Failed)),
    ("C3: a pod that is being deleted has ended", |case| stand(case, PodState::Ending, PodState::Ended)),
    ("C4: a terminated pod runs", |case| stand(case, PodState::Succeeded, PodState::Running)),
    ("C5: one more of each container stays", |case| {
        let most = &mut case.rules.containers.max_per_container;
        *most = most.map(|most| most + 1);
    }),
    ("C6: one more container stays in all", |case| {
        let most = &mut case.rules.containers.max_total;
        *most = most.map(|most| most + 1);
    }),
    ("I4: a higher threshold", |case| case.rules.images.high = 99),
    ("I4: another goal", |case| case.rules.images.low = case.rules.images.low.saturating_sub(20)),
    ("I5: another minimum age", |case| {
        let age = &mut case.rules.images.min_age;
        *age = if age.is_zero() { Duration::from_secs(3600) } else { Duration::ZERO };
    }),
    ("I3: nothing is known of earlier uses", |case| {
        case.forgets = true;
    }),
    ("B5: local images stay", |case| case.rules.images.keep_local = true),
];

fn stand(case: &mut Case, from: PodState, to: PodState) {
    for pod in case.told.iter_mut().filter(|pod| pod.state == from) {
        pod.state = to;
    }
}

/// Whether each twist makes a difference in some world.
pub async fn prove(stage: &mut Stage) -> Result<bool> {
    let mut proved = true;
    for (what, twist) in TWISTS {
        let mut found = false;
        for seed in 0..WORLDS {
            found = !differences(&stage.run(seed, twist).await?).is_empty();
            if found {
                break;
            }
        }
        if !found {
            println!("kubelet: nobody would notice in {WORLDS} worlds: {what}");
            proved = false;
        }
    }
    println!("kubelet: {} deliberate differences were looked for, all found: {proved}", TWISTS.len());
    Ok(proved)
}
