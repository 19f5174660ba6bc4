use super::*;
use crate::ledger::Age;
use crate::plan::{Inputs, plan};
use crate::testing::{NOW, confirmed, container, files, image, proof, sandbox, uid};
use crate::view::{Answer, RuntimeView, SandboxState};
use crate::{Files, Ledger, PodView, Rules, Tried};

/// A node with so many unused images of 10 bytes each, 90 % used: 100 bytes are missing.
fn node(images: usize) -> (RuntimeView, Files, Ledger) {
    let mut runtime = RuntimeView::default();
    let mut ledger = Ledger::default();
    for number in 0..images {
        let mut image = image(&format!("i{number:03}"));
        image.bytes = 10;
        ledger.set(&image.id, Age { detected: Duration::from_secs(3600), used: None });
        runtime.images.push(image);
    }
    (runtime, Files { image_usage: Some(usage(100)), ..files() }, ledger)
}

fn usage(available: u64) -> Usage {
    Usage { capacity: 1000, available, inodes: 0, inodes_free: 0 }
}

fn plan_of((runtime, files, ledger): &(RuntimeView, Files, Ledger), rules: &Rules, tried: &Tried) -> Plan {
    plan(&Inputs { runtime, pods: &PodView::None, files, ledger, rules, tried, now: NOW })
}

fn pass_of(node: &(RuntimeView, Files, Ledger), rules: &Rules) -> Pass {
    Pass::new(&plan_of(node, rules, &Tried::default()), Scope::All)
}

fn removed(pass: &mut Pass, candidates: Vec<Candidate>) {
    for candidate in candidates {
        pass.record(Record { candidate, outcome: Outcome::Removed });
    }
}

/// Carries out a pass on a node where each removal frees so many bytes. Returns what goes at the same time.
fn carry_out(pass: &mut Pass, frees: u64) -> Vec<Vec<Candidate>> {
    carry_out_with(pass, frees, |_| false)
}

/// The same where some removals fail.
fn carry_out_with(pass: &mut Pass, frees: u64, fails: impl Fn(&Candidate) -> bool) -> Vec<Vec<Candidate>> {
    let mut available = 100;
    let mut steps = Vec::new();
    loop {
        match pass.next_step() {
            Step::Remove(candidates) => {
                available += frees * u64::try_from(candidates.len()).unwrap();
                steps.push(candidates.clone());
                for candidate in candidates {
                    let outcome = match fails(&candidate) {
                        true => Outcome::Failed("device busy".to_owned()),
                        false => Outcome::Removed,
                    };
                    pass.record(Record { candidate, outcome });
                }
            }
            Step::Measure { .. } => pass.measured(Some(usage(available))),
            Step::Done => return steps,
        }
    }
}

#[test]
fn b3_images_go_one_by_one_until_enough_is_free() {
    let node = node(40);
    for (frees, expected) in [(4, 25), (50, 2)] {
        let mut pass = pass_of(&node, &Rules::default());
        let steps = carry_out(&mut pass, frees);
        assert!(steps.len() == expected && steps.iter().all(|step| step.len() == 1));
        assert_eq!(pass.missing(), (0, 0));
    }
    // So do those that are too old: each is looked at right before.
    let mut rules = Rules::default();
    rules.images.max_age = Some(Duration::from_secs(60));
    let steps = carry_out(&mut pass_of(&node, &rules), 0);
    assert!(steps.len() == 40 && steps.iter().all(|step| step.len() == 1));
}

#[test]
fn b3_after_a_removal_the_file_system_gets_time_and_before_it_does_not() {
    let node = node(40);
    let mut pass = pass_of(&node, &Rules::default());
    let Step::Measure { patience: Duration::ZERO, .. } = pass.next_step() else { panic!("no measurement") };
    // Others write at the same time: what the image had is free when so much more is available.
    for available in [100, 90] {
        pass.measured(Some(usage(available)));
        let Step::Remove(candidates) = pass.next_step() else { panic!("no removal") };
        let bytes = candidates[0].bytes.unwrap();
        removed(&mut pass, candidates);
        assert_eq!(pass.next_step(), Step::Measure { patience: PATIENCE, until: 200.min(available + bytes) });
    }
}

#[test]
fn b9_what_the_last_image_has_freed_counts_and_what_is_missing_is_told_even_if_no_image_may_go() {
    for (images, frees, missing) in [(2, 50, 0), (2, 40, 20), (0, 0, 100)] {
        let node = node(images);
        let mut pass = pass_of(&node, &Rules::default());
        carry_out(&mut pass, frees);
        assert_eq!(pass.missing(), (missing, 0));
        assert!(!pass.is_unmeasured());
    }
}

#[test]
fn without_a_measurement_no_image_goes_for_space_and_what_is_missing_is_not_known() {
    let mut pass = pass_of(&node(3), &Rules::default());
    pass.next_step();
    assert!(!pass.is_unmeasured(), "an interrupted pass could not even try");
    pass.measured(None);
    assert_eq!((pass.next_step(), pass.missing()), (Step::Done, (0, 0)));
    assert!(pass.is_unmeasured());
}

#[test]
fn a_pass_of_containers_leaves_images_alone() {
    let plan = plan_of(&node(3), &Rules::default(), &Tried::default());
    assert_eq!(Pass::new(&plan, Scope::Containers).next_step(), Step::Done);
    assert_ne!(Pass::new(&plan, Scope::Images).next_step(), Step::Done);
}

#[test]
fn containers_go_together_and_sandboxes_only_after_them() {
    let mut runtime = RuntimeView::default();
    for number in 0..20_u64 {
        let uid = uid(number);
        let mut dead = container(&format!("c{number:02}"), &uid, "web", "image");
        dead.sandbox_id = format!("s{number:02}");
        let mut sandbox = sandbox(&dead.sandbox_id, &uid);
        sandbox.state = SandboxState::NotReady;
        runtime.sandboxes.push(sandbox);
        runtime.containers.push(dead);
    }
    let pods = confirmed(&mut runtime, (0..20).map(|number| proof(number, Answer::NotFound)).collect());
    let (files, ledger, rules) = (&files(), &Ledger::default(), &Rules::default());
    let tried = &Tried::default();
    let plan = plan(&Inputs { runtime: &runtime, pods: &pods, files, ledger, rules, tried, now: NOW });
    let steps = carry_out(&mut Pass::new(&plan, Scope::All), 0);
    for step in &steps {
        assert!(step.iter().all(|candidate| candidate.what() == step[0].what()));
    }
    let found: Vec<_> = steps.iter().map(|step| (step[0].what(), step.len())).collect();
    let of = |what| [(what, AT_A_TIME), (what, AT_A_TIME), (what, 20 - 2 * AT_A_TIME)];
    assert_eq!(found, [of(What::Container), of(What::Sandbox)].concat());
}

/// Somebody else has removed it, so what has its id later is another one.
#[test]
fn an_image_that_a_list_lacks_leaves_the_line() {
    let mut node = node(4);
    for max_age in [None, Some(Duration::from_secs(60))] {
        let mut rules = Rules::default();
        rules.images.max_age = max_age;
        let mut pass = pass_of(&node, &rules);
        let other = node.0.images.remove(1);
        pass.listed(&node.0.images);
        node.0.images.insert(1, other);
        pass.listed(&node.0.images);
        let ids: Vec<_> = carry_out(&mut pass, 0).concat().iter().map(|it| it.id().to_owned()).collect();
        assert_eq!(ids, ["i000", "i002", "i003"]);
    }
}

#[test]
fn safety_4_what_fails_takes_nothing_from_the_limit_and_comes_last_in_the_next_pass() {
    let mut rules = Rules::default();
    rules.limits.images = 8;
    for max_age in [None, Some(Duration::from_secs(60))] {
        rules.images.max_age = max_age;
        let mut node = node(40);
        let plan = plan_of(&node, &rules, &Tried::default());
        let mut pass = Pass::new(&plan, Scope::All);
        let steps = carry_out_with(&mut pass, 0, |candidate| candidate.id() < "i025");
        assert_eq!(steps.concat().len(), 25 + 8);
        assert!(plan.more);
        let mut tried = Tried::default();
        tried.update(&plan, &pass.into_records());
        // One has gone, and was pulled again.
        node.0.images.drain(25..32);
        let plan = plan_of(&node, &rules, &tried);
        let ids: Vec<&str> = plan.removals.iter().map(Candidate::id).collect();
        assert_eq!(ids, ["i032", "i033", "i034", "i035", "i036", "i037", "i038", "i039"]);
        assert_eq!(plan.in_line[0].id(), "i000");
        assert!(plan.entry(What::Image, "i000").unwrap().details.has_failed);
        assert!(!plan.more, "what has failed is no reason for another pass at once");
    }
}

#[test]
fn no_image_goes_before_the_layers_of_containers_had_time_to_be_freed() {
    let mut node = node(3);
    for number in 0..2 {
        let mut dead = container(&format!("c{number}"), &uid(number), "web", "other");
        dead.layer_bytes = Some(60);
        node.0.containers.push(dead);
    }
    let pods = confirmed(&mut node.0, (0..2).map(|number| proof(number, Answer::NotFound)).collect());
    for (disk, expected) in
        [(ContainerDisk::OfImages, Some(200)), (ContainerDisk::Own(Some(usage(500))), None)]
    {
        node.1.container_disk = disk;
        let (runtime, files, ledger) = &node;
        let (rules, tried) = (&Rules::default(), &Tried::default());
        let plan = plan(&Inputs { runtime, pods: &pods, files, ledger, rules, tried, now: NOW });
        assert_eq!(plan.breakdown.dead_containers, if expected.is_some() { 120 } else { 0 });
        let mut pass = Pass::new(&plan, Scope::All);
        let Step::Remove(containers) = pass.next_step() else { panic!("no removal") };
        removed(&mut pass, containers);
        let Step::Measure { patience, until } = pass.next_step() else { panic!("no measurement") };
        let expected = expected.map_or((Duration::ZERO, until), |until| (PATIENCE_FOR_LAYERS, until));
        assert_eq!((patience, until), expected);
        pass.measured(Some(usage(200)));
        assert_eq!(pass.next_step(), Step::Done);
    }
}
