//! The history of a node whose time of day anybody sets, whose host is switched off, and whose collector starts
//! anew, and removes images that somebody pulls again: nothing goes for its age before it truly was so old or unused
//! for so long.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_gc_node::plan::{Inputs, What};
use kube_gc_node::testing::{NOW, Random, container, image, uid};
use kube_gc_node::view::Container;
use kube_gc_node::{Files, Ledger, Moment, PodView, Rules, RuntimeView, Timestamp, Tried};

const MAX_AGE: u64 = 1000;
/// How old a dead container has to be.
const MIN_AGE: u64 = 400;

/// What goes too early in a history of this seed.
pub fn judge(random: &mut Random) -> Vec<String> {
    let mut rules = Rules::default();
    rules.images.max_age = Some(Duration::from_secs(MAX_AGE));
    rules.images.min_age = Duration::from_secs(random.pick(&[0, 120]));
    rules.containers.min_age = Duration::from_secs(MIN_AGE);
    rules.containers.max_per_container = Some(0);
    let (mut ledger, mut runtime) = (Ledger::default(), RuntimeView::default());
    // Seconds that have truly passed, and when each image was truly pulled or used last.
    let (mut now, mut seen) = (0, BTreeMap::new());
    // When each container was truly created, with what the runtime says of it.
    let mut dead = Vec::new();
    let (mut booted, mut boot, mut wall) = (0, 0_u64, NOW);
    for step in 0..8 {
        let passed = random.below(600);
        now += passed;
        wall = wall.plus(Duration::from_secs(passed));
        match random.below(8) {
            0 => {
                wall = random.pick(&[Timestamp::from_secs(100), NOW, NOW.plus(Duration::from_secs(1 << 30))]);
            }
            1 => wall = wall.plus(Duration::from_secs(random.below(10_000))),
            2 => wall = wall.minus(Duration::from_secs(random.below(10_000))),
            3 => (booted, boot) = (now - random.below(passed + 1), boot + 1),
            4 => {
                ledger = ledger.to_json().ok().and_then(|json| Ledger::parse(&json).ok()).unwrap_or_default();
            }
            5 => {
                runtime.images.push(image(&format!("i{step}")));
                seen.insert(format!("i{step}"), now);
            }
            6 => {
                let name = format!("c{step}");
                dead.push((now, Container { created_at: wall, ..container(&name, &uid(2), &name, "none") }));
            }
            _ => {}
        }
        runtime.containers = dead.iter().map(|(_, container)| container.clone()).collect();
        if let Some(used) = runtime.images.first().filter(|_| random.percent(30)) {
            runtime.containers.push(container("c", &uid(1), "web", &used.id));
            seen.insert(used.id.clone(), now);
        }
        let boot = (!random.percent(5)).then(|| boot.to_string());
        let uptime = Duration::from_secs(now - booted);
        ledger.observe(&runtime, &PodView::None, &Moment { wall, boot, uptime });
        let (pods, files, tried) = (&PodView::None, &Files::default(), &Tried::default());
        let inputs =
            Inputs { runtime: &runtime, pods, files, ledger: &ledger, rules: &rules, tried, now: wall };
        let plan = kube_gc_node::plan(&inputs);
        for (created, Container { id, .. }) in dead.iter().filter(|(created, _)| now - created < MIN_AGE) {
            if plan.removals.iter().any(|candidate| candidate.id() == id) {
                return vec![format!("container {id} goes after {} s", now - created)];
            }
        }
        for removed in plan.removals.iter().filter(|candidate| candidate.what() == What::Image) {
            let id = removed.id();
            let unused = now - seen[id];
            if unused < MAX_AGE {
                return vec![format!("image {id} goes after {unused} s by {}", removed.rule)];
            }
            // It is removed, and perhaps pulled again before the next look.
            if random.percent(50) {
                ledger.forget(removed);
                if random.percent(50) {
                    seen.insert(id.to_owned(), now);
                } else {
                    runtime.images.retain(|image| image.id != id);
                }
            }
        }
    }
    Vec::new()
}
