use super::*;
use crate::ledger::Record as Age;
use crate::plan::plan;
use crate::testing::{NOW, container, files, image, uid};
use crate::view::RuntimeView;
use crate::{Files, Ledger, PodView, Rules};

/// A node with so many unused images of 10 bytes each, 90 % used.
fn node(images: usize) -> (RuntimeView, Files, Ledger) {
    let mut runtime = RuntimeView::default();
    let mut ledger = Ledger::default();
    for number in 0..images {
        let mut image = image(&format!("i{number:03}"));
        image.bytes = 10;
        ledger.set(&image.id, Age { first_detected: NOW.minus(Duration::from_secs(3600)), last_used: None });
        runtime.images.push(image);
    }
    let usage = Usage { capacity: 1000, available: 100, inodes: 0, inodes_free: 0 };
    (runtime, Files { image_usage: Some(usage), ..files() }, ledger)
}

fn pass_of(runtime: &RuntimeView, files: &Files, ledger: &Ledger, rules: &Rules) -> Pass {
    let plan = plan(runtime, &PodView::None, files, ledger, rules, NOW);
    Pass::new(&plan, Scope::All, rules.limits.images)
}

/// Carries out a pass on a node where each image frees so many bytes. Returns the steps.
fn carry_out(pass: &mut Pass, runtime: &RuntimeView, frees: u64) -> Vec<String> {
    let files = files();
    let fresh = Fresh { runtime, pods: &PodView::None, files: &files };
    let mut available = 100;
    let mut steps = Vec::new();
    loop {
        match pass.next_step() {
            Step::Remove(candidates) => {
                for candidate in &candidates {
                    steps.push(candidate.id().to_owned());
                    available += frees;
                }
                pass.record(vec![Outcome::Removed; candidates.len()]);
            }
            Step::ListContainers => {
                steps.push("list".to_owned());
                pass.listed(Some(&fresh));
            }
            Step::Measure { .. } => {
                pass.measured(Some(Usage { capacity: 1000, available, inodes: 0, inodes_free: 0 }));
            }
            Step::Done => return steps,
        }
    }
}

fn count(steps: &[String], wanted: &str) -> usize {
    steps.iter().filter(|step| step.starts_with(wanted)).count()
}

#[test]
fn b2_containers_are_listed_before_each_ten_images() {
    let (runtime, files, ledger) = node(40);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    // 100 bytes are missing, and each image frees only 4 of its 10.
    let steps = carry_out(&mut pass, &runtime, 4);
    assert_eq!((count(&steps, "i"), count(&steps, "list")), (25, 3));
    assert_eq!((steps[0].as_str(), steps[11].as_str(), steps[22].as_str()), ("list", "list", "list"));
    assert_eq!(pass.summary().missing, None);
    assert_eq!(pass.summary().freed_bytes, 100);
}

#[test]
fn b3_removal_stops_as_soon_as_enough_is_free() {
    let (runtime, files, ledger) = node(40);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    let steps = carry_out(&mut pass, &runtime, 50);
    assert_eq!(count(&steps, "i"), 2);
}

#[test]
fn b3_after_a_removal_the_file_system_gets_time_and_before_it_does_not() {
    let (runtime, files, ledger) = node(40);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    assert_eq!(pass.next_step(), Step::Measure { patience: Duration::ZERO });
    pass.measured(files.image_usage);
    pass.next_step();
    pass.listed(Some(&Fresh { runtime: &runtime, pods: &PodView::None, files: &files }));
    assert!(matches!(pass.next_step(), Step::Remove(_)));
    pass.record([Outcome::Removed]);
    assert_eq!(pass.next_step(), Step::Measure { patience: PATIENCE });
}

#[test]
fn b9_what_the_last_image_has_freed_counts() {
    let (runtime, files, ledger) = node(2);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    // 100 bytes are missing.
    carry_out(&mut pass, &runtime, 50);
    assert_eq!((pass.summary().freed_bytes, pass.summary().missing), (100, None));
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    carry_out(&mut pass, &runtime, 40);
    assert_eq!(pass.summary().missing, Some(Missing { bytes: 20, inodes: 0 }));
}

#[test]
fn without_a_measurement_no_image_goes_for_space() {
    let (runtime, files, ledger) = node(3);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    pass.next_step();
    pass.measured(None);
    assert_eq!(pass.next_step(), Step::Done);
}

#[test]
fn without_a_list_no_image_goes() {
    let (runtime, files, ledger) = node(3);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    pass.next_step();
    pass.measured(files.image_usage);
    assert_eq!(pass.next_step(), Step::ListContainers);
    pass.listed(None);
    assert_eq!(pass.next_step(), Step::Done);
    assert_eq!(pass.summary().refused, 3);
    assert_eq!(pass.summary().missing, Some(Missing { bytes: 100, inodes: 0 }));
}

#[test]
fn an_image_that_is_used_by_now_stays() {
    let (mut runtime, files, ledger) = node(3);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    runtime.containers.push(container("late", &uid(1), "web", "i001"));
    let steps = carry_out(&mut pass, &runtime, 10);
    assert_eq!(steps, ["list", "i000", "i002"]);
    let refused = pass.records().iter().find(|record| record.candidate.id() == "i001").unwrap();
    assert_eq!(refused.outcome, Outcome::Refused(Refusal::InUse));
}

#[test]
fn i7_a_failure_stops_nothing_and_counts_as_done() {
    let (runtime, files, ledger) = node(3);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    let fresh = Fresh { runtime: &runtime, pods: &PodView::None, files: &files };
    let mut tried = Vec::new();
    loop {
        match pass.next_step() {
            Step::Remove(candidates) => {
                tried.extend(candidates.iter().map(|candidate| candidate.id().to_owned()));
                pass.record(vec![Outcome::Failed("read-only file system".to_owned()); candidates.len()]);
            }
            Step::ListContainers => pass.listed(Some(&fresh)),
            Step::Measure { .. } => pass.measured(files.image_usage),
            Step::Done => break,
        }
    }
    assert_eq!(tried, ["i000", "i001", "i002"]);
    assert_eq!(pass.summary().failed, 3);
}

#[test]
fn safety_4_a_pass_removes_fifty_images_even_if_they_free_nothing() {
    let (runtime, mut files, ledger) = node(200);
    files.image_usage = Some(Usage { capacity: 10_000, available: 0, inodes: 0, inodes_free: 0 });
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    assert_eq!(count(&carry_out(&mut pass, &runtime, 0), "i"), 50);
}

#[test]
fn a_dry_run_has_no_steps() {
    let (runtime, files, ledger) = node(3);
    let rules = Rules { dry_run: true, ..Rules::default() };
    let mut pass = pass_of(&runtime, &files, &ledger, &rules);
    assert_eq!(pass.next_step(), Step::Done);
}

#[test]
fn answers_that_nobody_asked_for_change_nothing() {
    let (runtime, files, ledger) = node(3);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    pass.record([Outcome::Removed]);
    pass.listed(None);
    pass.measured(None);
    assert_eq!(count(&carry_out(&mut pass, &runtime, 0), "i"), 3);
}

#[test]
fn a_pass_of_containers_leaves_images_alone() {
    let (runtime, files, ledger) = node(3);
    let plan = plan(&runtime, &PodView::None, &files, &ledger, &Rules::default(), NOW);
    assert_eq!(Pass::new(&plan, Scope::Containers, 50).next_step(), Step::Done);
    assert_ne!(Pass::new(&plan, Scope::Images, 50).next_step(), Step::Done);
}

#[test]
fn b9_what_is_missing_is_told_even_if_no_image_may_go() {
    let (runtime, files, ledger) = node(0);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    assert_eq!(carry_out(&mut pass, &runtime, 0), [""; 0]);
    assert_eq!(pass.summary().missing, Some(Missing { bytes: 100, inodes: 0 }));
    // What is missing is not known if nothing can be measured.
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    pass.next_step();
    pass.measured(None);
    assert_eq!((pass.next_step(), pass.summary().missing), (Step::Done, None));
    assert!(pass.summary().unmeasured);
}

#[test]
fn b3_images_that_go_for_space_go_one_by_one_and_those_that_are_too_old_together() {
    let (runtime, files, ledger) = node(40);
    let mut sizes = Vec::new();
    for max_age in [None, Some(Duration::from_secs(60))] {
        let mut rules = Rules::default();
        rules.images.max_age = max_age;
        let mut pass = pass_of(&runtime, &files, &ledger, &rules);
        let fresh = Fresh { runtime: &runtime, pods: &PodView::None, files: &files };
        let mut longest = 0;
        loop {
            match pass.next_step() {
                Step::Remove(candidates) => {
                    longest = longest.max(candidates.len());
                    pass.record(vec![Outcome::Removed; candidates.len()]);
                }
                Step::ListContainers => pass.listed(Some(&fresh)),
                Step::Measure { .. } => pass.measured(files.image_usage),
                Step::Done => break,
            }
        }
        assert_eq!(pass.summary().removed, 40);
        sizes.push(longest);
    }
    assert_eq!(sizes, [1, AT_A_TIME]);
}

#[test]
fn containers_go_together_and_sandboxes_only_after_them() {
    let mut runtime = RuntimeView::default();
    for number in 0..20_u64 {
        let uid = uid(number);
        let mut dead = container(&format!("c{number:02}"), &uid, "web", "image");
        dead.sandbox_id = format!("s{number:02}");
        let mut sandbox = crate::testing::sandbox(&dead.sandbox_id, &uid);
        sandbox.state = crate::view::SandboxState::NotReady;
        runtime.sandboxes.push(sandbox);
        runtime.containers.push(dead);
    }
    let proofs = (0..20).map(|number| crate::testing::proof(number, crate::view::Answer::NotFound)).collect();
    let pods = crate::testing::listed(Vec::new(), proofs);
    let plan = plan(&runtime, &pods, &files(), &Ledger::default(), &Rules::default(), NOW);
    let mut pass = Pass::new(&plan, Scope::All, 50);
    let mut steps = Vec::new();
    while let Step::Remove(candidates) = pass.next_step() {
        let what = candidates[0].what();
        assert!(candidates.iter().all(|candidate| candidate.what() == what));
        steps.push((what, candidates.len()));
        pass.record(vec![Outcome::Removed; candidates.len()]);
    }
    let of = |what| [(what, AT_A_TIME), (what, AT_A_TIME), (what, 20 - 2 * AT_A_TIME)];
    assert_eq!(steps, [of(What::Container), of(What::Sandbox)].concat());
}

#[test]
fn b9_what_the_last_image_frees_counts() {
    let (runtime, files, ledger) = node(10);
    let mut pass = pass_of(&runtime, &files, &ledger, &Rules::default());
    assert_eq!(count(&carry_out(&mut pass, &runtime, 10), "i"), 10);
    let Summary { freed_bytes, missing, .. } = pass.summary();
    assert_eq!((freed_bytes, missing), (100, None));
}
