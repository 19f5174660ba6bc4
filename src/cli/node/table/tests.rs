use std::sync::Arc;
use std::time::Duration;

use kube_gc_node::testing::image;
use kube_gc_node::view::Image;
use kube_gc_node::{Files, Inputs, Ledger, Moment, PodView, Rules, RuntimeView, Timestamp, Tried};

use super::*;

/// Of four images that go for space, a pass may remove two. One cannot be removed, so two others go, of which one has
/// two tags. A fifth is pinned.
fn pass(missing_bytes: u64) -> (Report, PassResult) {
    let tags = ["app:1", "app:latest"].map(str::to_owned).to_vec();
    let images = vec![
        Image { repo_tags: tags, ..image("a") },
        image("b"),
        image("c"),
        image("d"),
        Image { pinned: true, runtime_handler: Some("gvisor".to_owned()), ..image("e") },
    ];
    let runtime = &RuntimeView { images, ..RuntimeView::default() };
    let mut rules = Rules { free: Some(99), ..Rules::default() };
    (rules.limits.images, rules.images.min_age) = (2, Duration::ZERO);
    let usage = Some(Usage { capacity: 1000, available: 100, ..Usage::default() });
    let files = &Files { image_usage: usage, ..Files::default() };
    let (mut ledger, pods, tried) = (Ledger::default(), &PodView::None, &Tried::default());
    ledger.observe(runtime, pods, &Moment::default());
    let (ledger, rules, now) = (&ledger, &rules, Timestamp::from_secs(1));
    let plan = kube_gc_node::plan(&Inputs { runtime, pods, files, ledger, rules, tried, now });
    let outcomes = [Outcome::Removed, Outcome::Failed("device busy".to_owned()), Outcome::Removed];
    let items = plan.removals.iter().chain(&plan.in_line).cloned().zip(outcomes);
    let result = PassResult {
        removed: 2,
        refused: 0,
        failed: 1,
        freed_bytes: 200,
        missing_bytes,
        missing_inodes: 0,
        unmeasured: false,
        interrupted: None,
        seconds: 0.1,
        items: items.map(|(candidate, outcome)| Record { candidate, outcome }).collect(),
        usage,
        note: None,
    };
    let report = Report {
        version: 2,
        node: "node-1".to_owned(),
        runtime: "fake 1".to_owned(),
        endpoint: "unix:///x".to_owned(),
        time: String::new(),
        dry_run: None,
        notes: Vec::new(),
        plan: Arc::new(plan),
        result: None,
        asked: String::new(),
    };
    (report, result)
}

/// The first words of the rows.
fn outcomes_of(shown: Shown) -> Vec<String> {
    let (report, result) = pass(0);
    let text = super::result(&report, &result, shown);
    let table = text.lines().skip(1).take_while(|line| !line.starts_with("Removed "));
    table.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_result_shows_only_what_has_gone_or_only_what_stays_on_request() {
    let only = |only| outcomes_of(Shown { only, ..Shown::default() });
    assert_eq!(only(None), ["removed", "failed", "removed"]);
    assert_eq!(only(Some(Action::Remove)), ["removed", "removed"]);
    assert_eq!(only(Some(Action::Keep)), ["failed", "kept", "kept"]);
}

#[test]
fn a_wide_result_has_all_tags_and_ids() {
    let (report, result) = pass(0);
    let narrow = super::result(&report, &result, Shown::default());
    assert!(narrow.contains("app:1 and 1 more") && !narrow.contains("USED"), "{narrow}");
    let wide = super::result(&report, &result, Shown { wide: true, ..Shown::default() });
    assert!(wide.contains("app:1,app:latest") && wide.contains("USED"), "{wide}");
    assert_eq!(result.items[0].candidate.name, "app:1,app:latest");
    let plan = super::plan(&report, Shown { wide: true, ..Shown::default() });
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let row = plan.lines().map(words).find(|row| row.contains(&"gvisor".to_owned())).unwrap();
    let column = |name: &str| words(plan.lines().next().unwrap()).iter().position(|it| it == name).unwrap();
    assert_eq!((&*row[column("PINNED")], &*row[column("HANDLER")]), ("yes", "gvisor"));
}

#[test]
fn a_limit_that_leaves_images_although_space_is_missing_is_said() {
    for (missing, most, is_said) in [(100, 3, true), (0, 3, false), (100, 2, false)] {
        let (report, mut result) = pass(missing);
        // Whatever fails does not count against the limit.
        result.items.truncate(most);
        assert!(report.plan.more && !report.plan.leaves_due);
        let text = super::result(&report, &result, Shown::default());
        assert_eq!(text.contains("more is left: run it again"), is_said, "{text}");
    }
}
