use proptest::prelude::*;

use super::*;
use kube_gc_core::graph::SearchQuery;
use kube_gc_core::graph::testing::world::*;

/// After the time at which [`Cluster::read`] says that objects were deleted.
const NOW: &str = "2026-01-01T00:01:00Z";

fn report(cluster: &mut Cluster, before: &str, is_meant: impl Fn(&Identity) -> bool) -> StuckReport {
    let deleted = cluster.graph.search(&SearchQuery { being_deleted: true, ..SearchQuery::default() });
    cluster.ask(|asker| stuck(asker, &deleted, before, &is_meant))
}

fn cluster(objects: &[(&Obj, &[&str])]) -> Cluster {
    let all: Vec<&Obj> = objects.iter().map(|(obj, _)| *obj).collect();
    objects.iter().fold(Cluster::of(&all), |cluster, (obj, finalizers)| cluster.read(obj, finalizers))
}

fn sentences(report: &StuckReport) -> Vec<&str> {
    report.groups.iter().map(|group| group.sentence.as_str()).collect()
}

/// `tests/insight/stuck.rs` shows each cause.
#[test]
fn what_is_not_meant_holds_others_and_is_not_counted() {
    let top = config("top").foreground();
    let held = config("receipt").blocking(&top).terminating();
    let other = config("other").terminating();
    let mut cluster = cluster(&[
        (&top, &["foregroundDeletion"]),
        (&held, &["example.com/a"]),
        (&other, &["example.com/b"]),
    ]);
    let report = report(&mut cluster, NOW, |identity| &*identity.name == "top");
    assert_eq!(sentences(&report), ["1 object waits for ConfigMap/receipt (finalizer example.com/a)"]);
    assert_eq!((report.stuck, report.being_deleted, report.groups[0].object_count), (1, 1, 1));
}

#[test]
fn objects_with_the_same_finalizer_have_one_cause_and_the_first_are_named() {
    let all: Vec<Obj> = (0..30).map(|number| config(&format!("c{number}")).terminating()).collect();
    let finalizers: &[&str] = &["example.com/backup"];
    let mut cluster = cluster(&all.iter().map(|obj| (obj, finalizers)).collect::<Vec<_>>());
    let of_all = report(&mut cluster, NOW, |_| true);
    assert_eq!(sentences(&of_all), ["30 objects wait for finalizer example.com/backup"]);
    assert_eq!((of_all.groups[0].holders.len(), of_all.groups[0].object_count), (20, 30));
    assert_eq!(of_all.groups[0].oldest.as_deref(), Some("2026-01-01T00:00:00Z"));
    let before = report(&mut cluster, "2025-12-31T23:59:59Z", |_| true);
    assert_eq!((before.stuck, before.being_deleted, before.groups.len()), (0, 30, 0));
    let deleted = [(all[0].identity(), all[0].facts.deletion_state())];
    let unread = cluster.ask_with(0, |asker| stuck(asker, &deleted, NOW, |_| true));
    assert_eq!((unread.stuck, unread.not_read), (0, 1));
}

proptest! {
    /// Everything that is stuck is in some group, and no group has anything else.
    #[test]
    fn everything_that_is_stuck_has_a_cause(
        edges in prop::collection::vec((0..8_usize, 0..8_usize, any::<bool>()), 0..16),
        states in prop::collection::vec(0..4_u8, 8),
    ) {
        let mut all: Vec<Obj> = (0..8).map(|number| config(&format!("o{number}"))).collect();
        for (dependent, owner, blocks) in edges {
            let owner = all[owner].clone();
            let item = all[dependent].clone();
            all[dependent] = if blocks { item.blocking(&owner) } else { item.owned(&owner) };
        }
        let mut finalizers: Vec<Vec<&str>> = Vec::new();
        for (obj, state) in all.iter_mut().zip(&states) {
            *obj = match state {
                0 | 1 => obj.clone().foreground(),
                2 => obj.clone().terminating(),
                _ => obj.clone(),
            };
            finalizers.push(match state {
                0 => vec!["foregroundDeletion"],
                1 => vec!["foregroundDeletion", "example.com/a"],
                2 => vec!["example.com/b"],
                _ => Vec::new(),
            });
        }
        let objects: Vec<(&Obj, &[&str])> = all.iter().zip(&finalizers).map(|(obj, all)| (obj, &all[..])).collect();
        let mut cluster = cluster(&objects);
        let report = report(&mut cluster, NOW, |_| true);
        let names = |uids: &mut dyn Iterator<Item = String>| uids.collect::<std::collections::BTreeSet<_>>();
        let grouped = names(&mut report.groups.iter().flat_map(|group| &group.objects).map(|name| name.name.clone()));
        let deleted = all.iter().filter(|obj| obj.facts.being_deleted);
        let stuck = names(&mut deleted.map(|obj| obj.facts.name.to_string()));
        prop_assert_eq!(report.stuck, stuck.len());
        prop_assert_eq!(grouped, stuck);
    }
}
