//! What the kubelet does not do, or does otherwise. The suite `kubelet` holds the rest against its functions.

use super::*;
use crate::ledger::Age;
use crate::pressure::goal;
use crate::rules::Label;
use crate::testing::{NOW, container, image, listed, pod, sandbox, uid};
use crate::users::i1_may_mount;
use crate::view::{Phase, Pod, Sandbox, SandboxState};
use crate::{Files, Ledger, PodView, RuntimeView, Tried};

/// A node of which 90 % is used, with images that were detected an hour ago and never used.
struct Node {
    runtime: RuntimeView,
    pods: PodView,
    ledger: Ledger,
    rules: Rules,
    usage: Usage,
}

fn age(detected: u64, used: Option<u64>) -> Age {
    Age { detected: Duration::from_secs(detected), used: used.map(Duration::from_secs) }
}

fn node(ids: &[&str]) -> Node {
    let images: Vec<Image> = ids.iter().map(|id| image(id)).collect();
    let mut ledger = Ledger::default();
    for image in &images {
        ledger.set(&image.key(), age(3600, None));
    }
    let runtime = RuntimeView { images, ..RuntimeView::default() };
    let usage = Usage { capacity: 1000, available: 100, inodes: 0, inodes_free: 0 };
    Node { runtime, pods: PodView::None, ledger, rules: Rules::default(), usage }
}

impl Node {
    fn decide(&self) -> Selection {
        let goal = goal(&self.usage, &self.rules);
        let files = &Files { image_usage: Some(self.usage), ..Files::default() };
        let Self { runtime, pods, ledger, rules, .. } = self;
        let inputs = Inputs { runtime, pods, files, ledger, rules, tried: &Tried::default(), now: NOW };
        decide(&inputs, goal.as_ref(), 0, |_| false)
    }

    /// The ids that go, in order.
    fn gone(&self) -> Vec<&str> {
        let removals = self.decide().removals;
        removals.into_iter().map(|index| self.runtime.images[index].id.as_str()).collect()
    }

    /// The rule that decides about the only image.
    fn rule(&self) -> Rule {
        self.decide().decisions[0].rule
    }

    fn used(&mut self, id: &str, seconds_ago: u64) {
        self.ledger.set(id, age(3600, Some(seconds_ago)));
    }
}

#[test]
fn i1_containers_may_mount_images_unless_the_spec_of_their_pod_is_known_to_have_none() {
    let mut node = node(&["a"]);
    let of = |pod| container("c", &uid(pod), "web", "a");
    node.runtime.containers = vec![of(1), of(2), of(3), of(4), container("c", "", "web", "a")];
    assert_eq!(i1_may_mount(&node.runtime, &PodView::None), [0, 1, 2, 3, 4]);
    let without = |number| Pod { without_image_volumes: true, ..pod(number) };
    let mirror = Pod { mirror_of: Some(uid(3)), ..without(30) };
    let nameless = Pod { pod: crate::PodRef::new("default", "x", ""), ..without(40) };
    node.pods = listed(vec![without(1), pod(2), mirror, nameless], vec![]);
    assert_eq!(i1_may_mount(&node.runtime, &node.pods), [1, 3, 4]);
}

#[test]
fn i4_images_go_until_enough_seems_to_be_free_and_the_others_stay_in_line() {
    // 100 are missing, and each image has 60.
    let mut node = node(&["a", "b", "c", "d"]);
    for image in &mut node.runtime.images {
        image.bytes = 60;
    }
    let selection = node.decide();
    assert_eq!(node.gone(), ["a", "b"]);
    assert_eq!(selection.in_line, [2, 3]);
    node.usage.available = 160;
    assert_eq!(node.gone(), Vec::<&str>::new());
    assert_eq!(node.rule(), Rule::I4);
}

#[test]
fn i6_what_is_unused_for_max_age_goes_whatever_the_usage() {
    let mut node = node(&["never used", "used long ago", "used", "pulled again"]);
    node.usage.available = 900;
    node.used("used long ago", 2000);
    node.used("used", 500);
    // Its age counts from the later of detection and last use.
    node.ledger.set("pulled again", age(500, Some(5000)));
    assert_eq!(node.gone(), Vec::<&str>::new());
    node.rules.images.max_age = Some(Duration::from_secs(1000));
    assert_eq!(node.gone(), ["never used", "used long ago"]);
}

#[test]
fn images_without_a_name_go_first_although_local_ones_stay() {
    let mut node = node(&["named", "local", "nameless"]);
    node.runtime.images[1].repo_digests.clear();
    node.runtime.images[1].repo_tags.push("local:1".to_owned());
    node.runtime.images[2].repo_digests = vec!["<none>@<none>".to_owned()];
    node.used("nameless", 200);
    node.rules.free = Some(99);
    assert_eq!(node.gone(), ["nameless", "named"]);
}

#[test]
fn b2_only_pods_that_may_still_start_hold_their_images() {
    let mut node = node(&["succeeded", "evicted", "deleted", "ending", "starting"]);
    let of = |number, image: &str| Pod { images: vec![image.to_owned()], ..pod(number) };
    node.pods = listed(
        vec![
            Pod { phase: Phase::Succeeded, ..of(1, "succeeded") },
            Pod { phase: Phase::Failed, evicted: true, ..of(2, "evicted") },
            Pod { deleting: true, containers_running: false, ..of(3, "deleted") },
            Pod { deleting: true, ..of(4, "ending") },
            Pod { phase: Phase::Pending, containers_running: false, ..of(5, "starting") },
        ],
        vec![],
    );
    node.rules.free = Some(99);
    assert_eq!(node.gone(), ["deleted", "evicted", "succeeded"]);
}

/// Pods that were read once hold their images as long as nothing newer is known; if none was, all stay.
#[test]
fn b2_without_an_answer_of_the_api_server_the_pods_that_were_known_last_hold_their_images() {
    let mut node = node(&["named", "free"]);
    node.rules.free = Some(99);
    let named = Pod { images: vec!["named".to_owned()], phase: Phase::Pending, ..pod(1) };
    for (known, gone) in [(Some(vec![named]), vec!["free"]), (None, vec![])] {
        node.pods = PodView::Unavailable { why: "no connection".to_owned(), known };
        assert_eq!(node.gone(), gone);
        assert_eq!(node.rule(), Rule::B2);
    }
    // The list is another node's.
    node.pods = listed(vec![], vec![]);
    for state in [SandboxState::Ready, SandboxState::NotReady] {
        node.runtime.sandboxes = vec![Sandbox { state, ..sandbox("s", &uid(1)) }];
        assert_eq!((node.gone(), node.rule()), (vec![], Rule::B2));
    }
}

#[test]
fn all_unused_images_go_on_demand_and_older_ones_only_if_that_is_wanted() {
    let mut node = node(&["young", "old", "used"]);
    node.usage.available = 900;
    node.rules.all = true;
    node.used("used", 1000);
    node.ledger.set("young", age(60, None));
    assert_eq!(node.gone(), ["old", "used"]);
    let young = node.decide().young.unwrap();
    assert_eq!((young.count, young.bytes, young.wait_seconds), (1, 100, 60));
    node.rules.older_than = Some(Duration::from_secs(2000));
    assert_eq!(node.gone(), ["old"]);
    assert_eq!(node.decide().decisions[2].rule, Rule::OlderThan);
    // Both count, for as long as the longer one takes.
    let young = node.decide().young.unwrap();
    assert_eq!((young.count, young.bytes, young.wait_seconds), (2, 200, 1940));
    // Where nothing is due, that is the reason.
    node.rules.all = false;
    let Selection { decisions, young, .. } = node.decide();
    assert_eq!((decisions[2].rule, young), (Rule::I4, None));
}

#[test]
fn only_images_with_all_labels_go_and_nobody_waits_for_others() {
    let label = |text| Label::parse(text).unwrap();
    let (a, b) = (label("a"), label("b=1"));
    let mut node = node(&["both", "one", "none", "unknown", "in use"]);
    let labels = [Some(vec![a.clone(), b.clone()]), Some(vec![b.clone()]), Some(vec![]), None, None];
    for (image, labels) in node.runtime.images.iter_mut().zip(labels) {
        image.labels = labels;
    }
    node.runtime.foreign_images.push("in use".to_owned());
    node.rules.labels = vec![a, b];
    for (max_age, all) in [(None, false), (Some(Duration::from_secs(1000)), false), (None, true)] {
        (node.rules.images.max_age, node.rules.all) = (max_age, all);
        assert_eq!(node.gone(), ["both"]);
        let reasons: Vec<_> = node.decide().decisions.into_iter().map(|it| (it.rule, it.reason)).collect();
        for (decision, reason) in reasons[1..4].iter().zip(["the label a", "the label a", "are not known"]) {
            assert!(decision.0 == Rule::Label && decision.1.contains(reason), "{decision:?}");
        }
        assert_eq!(reasons[4].0, Rule::I1);
    }
    // They would stay even if they were old enough.
    node.rules.older_than = Some(Duration::from_secs(4000));
    let young = node.decide().young.unwrap();
    assert_eq!((young.count, node.decide().decisions[1].rule), (1, Rule::Label));
    // Where nothing is due, that is the reason, and no labels are needed.
    (node.rules.all, node.usage.available) = (false, 900);
    assert!(node.decide().decisions[..4].iter().all(|decision| decision.rule == Rule::I4));
}

/// They would not go even if they were old enough.
#[test]
fn what_is_too_young_counts_only_if_the_goal_is_not_reached_without_it_or_it_goes_anyway() {
    let mut node = node(&["old", "older", "young"]);
    node.ledger.set("young", age(60, None));
    for (available, expected) in [(100, None), (99, Some(1))] {
        // By low = 70, 300 bytes are to be free, and each image has 100.
        (node.rules.images.high, node.rules.images.low) = (80, 70);
        node.usage.available = available;
        assert_eq!(node.gone(), ["old", "older"]);
        assert_eq!(node.decide().young.map(|young| young.count), expected);
    }
    node.usage.available = 100;
    node.rules.images.max_age = Some(Duration::from_secs(50));
    assert_eq!(node.decide().young.map(|young| young.count), Some(1));
}

/// containerd 2 does not say which one that is, and pins it only under the very name of its configuration.
#[test]
fn b5_the_image_of_sandboxes_is_known_by_its_name_if_the_runtime_does_not_tell_it() {
    let is_kept = |name: &str, sandbox_image| {
        let mut node = node(&["a"]);
        node.runtime.images[0].repo_digests = vec![name.to_owned()];
        node.runtime.sandbox_image = sandbox_image;
        node.rules.all = true;
        node.rule() == Rule::B5
    };
    for pause in ["registry.k8s.io/pause:3.10", "docker.io/rancher/mirrored-pause:3.6", "a/pause@sha256:0"] {
        assert!(is_kept(pause, SandboxImage::None), "{pause}");
        assert!(!is_kept(pause, SandboxImage::Named("another".to_owned())), "{pause}");
    }
    for other in ["registry.k8s.io/pause/app:1", "pause.example/app:1", "registry.example/unpause:1"] {
        assert!(!is_kept(other, SandboxImage::None), "{other}");
    }
}

#[test]
fn images_that_make_no_sense_stay() {
    assert_eq!(node(&["", "twin", "twin"]).gone(), Vec::<&str>::new());
}
