use std::time::Duration;

use wildmatch::WildMatch;

use super::*;
use crate::ledger::Age;
use crate::pressure::Usage;
use crate::rules::Pressure;
use crate::testing::{
    NOW, confirmed, container, image, listed, log_directory, pod, proof, sandbox, symlink, uid,
};
use crate::view::{Answer, Image, Phase, Pod, SandboxState, SymlinkState};
use crate::{Files, Ledger, PodView, Rules, RuntimeView, Tried};

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
    let mut runtime = RuntimeView {
        containers: vec![dead],
        sandboxes: vec![unready],
        images: vec![image("a")],
        ..RuntimeView::default()
    };
    let files = Files {
        log_directories: vec![log_directory(1)],
        log_symlinks: vec![symlink(&link, SymlinkState::Leads)],
        image_usage: Some(Usage { capacity: 1000, available: 100, inodes: 0, inodes_free: 0 }),
        ..Files::default()
    };
    let mut ledger = Ledger::default();
    ledger.set("a", Age { used: Some(Duration::ZERO), ..HOUR });
    let pods = confirmed(&mut runtime, vec![proof(1, Answer::NotFound)]);
    Left { runtime, pods, files, ledger, rules: Rules::default() }
}

const HOUR: Age = Age { detected: Duration::from_secs(3600), used: None };

impl Left {
    fn plan(&self) -> Plan {
        let Self { runtime, pods, files, ledger, rules } = self;
        plan(&Inputs { runtime, pods, files, ledger, rules, tried: &Tried::default(), now: NOW })
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
    let image = plan.entry(What::Image, "a").unwrap();
    assert_eq!((image.rule, &*image.reason), (Rule::I1, "container default/pod-1/web uses it"));
}

#[test]
fn safety_4_images_over_the_limit_wait_and_nothing_overtakes_them() {
    let mut left = left();
    left.runtime = RuntimeView::default();
    for number in 0..3 {
        let mut image = image(&format!("i{number}"));
        image.bytes = 60;
        left.ledger.set(&image.id, HOUR);
        left.runtime.images.push(image);
    }
    left.rules.limits.images = 1;
    let plan = left.plan();
    assert!(plan.more && !plan.leaves_due);
    let in_line: Vec<_> = plan.in_line.iter().map(|candidate| (candidate.id(), candidate.rule)).collect();
    assert_eq!(in_line, [("i1", Rule::I4), ("i2", Rule::I4)]);
    let due = Due { what: What::Image, count: 2, bytes: 120, now: 1, now_bytes: 60 };
    assert_eq!(plan.due.last(), Some(&due));
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
    left.ledger.set("unused", HOUR);
    left.runtime.images.extend([kept, unused]);
    let Breakdown { in_use, unused, kept, dead_containers, other } = left.plan().breakdown;
    assert_eq!((in_use, unused, kept, dead_containers, other), (400, 200, 30, 7, 900 - 637));
    // That a pod may name it does not mean that one does.
    left.pods = PodView::Unavailable { why: "no connection".to_owned(), known: None };
    let Breakdown { in_use, unused, kept, .. } = left.plan().breakdown;
    assert_eq!((in_use, unused, kept), (400, 0, 230));
}

#[test]
fn entries_and_candidates_have_what_people_want_to_know() {
    let mut left = left();
    left.runtime.containers[0].attempt = 3;
    let tags = ["registry.example/a:1", "registry.example/a:2"].map(str::to_owned);
    left.runtime.images[0].repo_tags = tags.to_vec();
    left.rules.images.keep = vec![WildMatch::new("nginx"), WildMatch::new("*/b:*"), WildMatch::new("*/a:3")];
    let plan = left.plan();
    let names: Vec<&str> = plan.removals.iter().map(|candidate| candidate.name.as_str()).collect();
    let directory = log_directory(1).name;
    assert_eq!(names, ["default/pod-1/web", "default/pod-1", &directory, &tags.join(",")]);
    let details = |what| plan.entries.iter().find(|entry| entry.what == what).unwrap().details.clone();
    let container = details(What::Container);
    assert_eq!((container.state, container.created_seconds), (Some("exited"), Some(3600)));
    assert_eq!(details(What::Sandbox).state, Some("not_ready"));
    let image = details(What::Image);
    assert_eq!(
        (image.detected_seconds, image.last_used_seconds, image.tags),
        (Some(3600), Some(0), tags.to_vec())
    );
    assert_eq!(plan.unmatched_keep, ["nginx", "*/b:*", "*/a:3"]);
}

/// A runtime that pulls for runtime handlers has one id several times.
#[test]
fn an_image_goes_although_it_is_young_for_another_runtime_handler() {
    let mut left = left();
    left.runtime = RuntimeView::default();
    for handler in ["old", "young"] {
        let image = Image { runtime_handler: Some(handler.to_owned()), ..image("a") };
        let detected = if handler == "old" { HOUR.detected } else { Duration::ZERO };
        left.ledger.set(&image.key(), Age { detected, used: None });
        left.runtime.images.push(image);
    }
    let plan = left.plan();
    assert_eq!(order(&plan), [(What::Image, Rule::I4, Some(1))]);
    let Left { runtime, pods, files, ledger, rules } = &left;
    let inputs = Inputs { runtime, pods, files, ledger, rules, tried: &Tried::default(), now: NOW };
    assert_eq!(crate::safety::check(&inputs, &plan), []);
}

#[test]
fn under_pressure_the_containers_of_their_own_disk_go_and_no_image_for_it() {
    let mut left = left();
    left.pods = listed(vec![Pod { phase: Phase::Succeeded, ..pod(1) }], vec![]);
    left.rules.pressure = Some(Pressure::default());
    let usage = |available| Some(Usage { capacity: 1000, available, inodes: 0, inodes_free: 0 });
    for (images, containers, rule) in [(100, 900, Rule::C5), (900, 100, Rule::C4)] {
        left.files.image_usage = usage(images);
        left.files.container_disk = ContainerDisk::Own(usage(containers));
        let plan = left.plan();
        assert_eq!(plan.entry(What::Container, "0123456789ab").unwrap().rule, rule);
        assert_eq!(plan.goal.is_some(), images == 100);
    }
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
