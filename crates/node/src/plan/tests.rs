use std::time::Duration;

use super::*;
use crate::Rule;
use crate::ledger::Record;
use crate::pressure::Usage;
use crate::testing::{NOW, container, image, listed, log_directory, proof, sandbox, symlink, uid};
use crate::view::{Answer, SandboxState, SymlinkState};
use crate::{Files, Ledger, PodView, Rules, RuntimeView};

/// A pod that is gone, with everything that can be left of one: a container that uses the only
/// image, its sandbox, its log directory, and its symlink.
struct Left {
    runtime: RuntimeView,
    pods: PodView,
    files: Files,
    ledger: Ledger,
    rules: Rules,
}

fn left() -> Left {
    let mut dead = container("0123456789ab", &uid(1), "web", "a");
    dead.sandbox_id = "s".to_owned();
    dead.layer_bytes = Some(7);
    let mut unready = sandbox("s", &uid(1));
    unready.state = SandboxState::NotReady;
    let link = crate::logs::c8_symlink(&dead).unwrap();
    let runtime = RuntimeView {
        containers: vec![dead],
        sandboxes: vec![unready],
        images: vec![image("a")],
        ..RuntimeView::default()
    };
    let files = Files {
        log_directories: vec![log_directory(1)],
        log_symlinks: vec![symlink(&link, SymlinkState::Leads)],
        image_usage: Some(Usage { capacity: 1000, available: 100, inodes: 0, inodes_free: 0 }),
    };
    let mut ledger = Ledger::default();
    let first_detected = NOW.minus(Duration::from_secs(3600));
    ledger.set("a", Record { first_detected, last_used: Some(NOW) });
    let pods = listed(vec![], vec![proof(1, Answer::NotFound)]);
    Left { runtime, pods, files, ledger, rules: Rules::default() }
}

impl Left {
    fn plan(&self) -> Plan {
        let Self { runtime, pods, files, ledger, rules } = self;
        plan(&Inputs { runtime, pods, files, ledger, rules, now: NOW })
    }
}

fn order(plan: &Plan) -> Vec<(What, Rule, Option<u32>)> {
    plan.removed().map(|entry| (entry.what, entry.rule, entry.order)).collect()
}

#[test]
fn everything_of_a_pod_that_is_gone_goes_in_order_and_frees_its_image() {
    let plan = left().plan();
    let expected = [
        (What::Container, Rule::C3, Some(1)),
        (What::LogSymlink, Rule::C8, Some(1)),
        (What::Sandbox, Rule::S1, Some(2)),
        (What::LogDirectory, Rule::L1, Some(3)),
        (What::Image, Rule::I4, Some(4)),
    ];
    assert_eq!(order(&plan), expected);
    assert_eq!(plan.removals.len(), 4);
    let Target::Container { symlink, .. } = &plan.removals[0].target else { unreachable!() };
    assert!(symlink.is_some());
}

#[test]
fn safety_4_what_a_pass_leaves_over_keeps_its_sandbox_and_its_image() {
    let mut left = left();
    left.rules.limits.containers = 1;
    let mut second = left.runtime.containers[0].clone();
    second.id = "second".to_owned();
    second.created_at = second.created_at.plus(Duration::from_secs(1));
    left.runtime.containers.push(second);
    let plan = left.plan();
    assert!(plan.more && plan.leaves_due);
    assert_eq!(plan.entry(What::Container, "second").unwrap().rule, Rule::Safety4);
    assert_eq!(plan.entry(What::Sandbox, "s").unwrap().decision, Action::Keep);
    assert_eq!(plan.entry(What::Image, "a").unwrap().rule, Rule::I1);
}

#[test]
fn safety_4_images_over_the_limit_wait_and_nothing_overtakes_them() {
    let mut left = left();
    left.runtime = RuntimeView::default();
    for number in 0..3 {
        let mut image = image(&format!("i{number}"));
        image.bytes = 60;
        let first_detected = NOW.minus(Duration::from_secs(3600));
        left.ledger.set(&image.id, Record { first_detected, last_used: None });
        left.runtime.images.push(image);
    }
    left.rules.limits.images = 1;
    let plan = left.plan();
    assert!(plan.more && !plan.leaves_due && plan.in_line.is_empty());
    assert_eq!(plan.entry(What::Image, "i1").unwrap().rule, Rule::Safety4);
    assert_eq!(plan.entry(What::Image, "i2").unwrap().rule, Rule::I4);
    assert_eq!(plan.breakdown.unused, 180);

    left.rules.images.max_age = Some(Duration::from_secs(60));
    assert!(left.plan().leaves_due, "their age alone is a reason");
    left.rules.limits.images = 3;
    let plan = left.plan();
    assert!(!plan.more && !plan.leaves_due);
}

#[test]
fn the_breakdown_tells_what_fills_the_file_system() {
    let mut left = left();
    left.pods = PodView::None;
    left.runtime.images[0].bytes = 400;
    let mut kept = image("kept");
    kept.bytes = 30;
    kept.pinned = true;
    let mut unused = image("unused");
    unused.bytes = 200;
    let first_detected = NOW.minus(Duration::from_secs(3600));
    left.ledger.set("unused", Record { first_detected, last_used: None });
    left.runtime.images.extend([kept, unused]);
    let Breakdown { in_use, unused, kept, dead_containers, other } = left.plan().breakdown;
    assert_eq!((in_use, unused, kept, dead_containers, other), (400, 200, 30, 7, 900 - 637));
}

#[test]
fn what_runtimes_say_cannot_make_reasons_long_or_harmful() {
    let mut left = left();
    left.pods = PodView::None;
    left.runtime.containers[0].id = format!("\u{1b}[2J{}", "x".repeat(1_000_000));
    for entry in left.plan().entries {
        assert!(entry.reason.len() < 1000 && !entry.reason.contains('\u{1b}'), "{}", entry.rule);
    }
}
