use proptest::prelude::*;

use super::super::Remaining;
use super::super::stuck::{StuckReport, stuck};
use super::*;
use kube_gc_core::graph::SearchQuery;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::OwnerReference;

/// After the time at which [`Cluster::read`] says that objects were deleted.
const NOW: &str = "2026-01-01T00:01:00Z";

fn remaining(cluster: &mut Cluster) -> Vec<Remaining> {
    let query = SearchQuery { being_deleted: true, ..SearchQuery::default() };
    let found = cluster.graph.search(&query).found;
    assert!(found.iter().all(|(_, deletion)| deletion.is_being_deleted()));
    cluster.ask(|asker| Remaining::around(asker, &found))
}

fn report(cluster: &mut Cluster) -> StuckReport {
    let remaining = remaining(cluster);
    cluster.ask(|asker| stuck(asker, &remaining, NOW))
}

fn cluster(objects: &[(&Obj, &[&str])]) -> Cluster {
    let all: Vec<&Obj> = objects.iter().map(|(obj, _)| *obj).collect();
    objects.iter().fold(Cluster::of(&all), |cluster, (obj, finalizers)| cluster.read(obj, finalizers))
}

fn sentences(report: &StuckReport) -> Vec<&str> {
    report.groups.iter().map(|group| group.sentence.as_str()).collect()
}

#[test]
fn nothing_is_stuck_where_nothing_is_being_deleted() {
    let owner = config("a");
    assert_eq!(
        report(&mut cluster(&[(&owner, &[]), (&pod("p").blocking(&owner), &[])])),
        StuckReport::default()
    );
}

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
    let mut remaining = remaining(&mut cluster);
    for one in &mut remaining {
        one.is_meant = &*one.identity.name == "top";
    }
    let report = cluster.ask(|asker| stuck(asker, &remaining, NOW));
    assert_eq!(sentences(&report), ["1 object waits for ConfigMap/receipt (finalizer example.com/a)"]);
    assert_eq!((report.stuck, report.being_deleted, report.groups[0].object_count), (1, 1, 1));
}

#[test]
fn those_that_wait_are_grouped_by_the_object_that_holds_them() {
    let top = config("top").foreground();
    let middle = config("middle").blocking(&top).foreground();
    let held = config("receipt").blocking(&middle).terminating();
    let other = config("other").terminating();
    let objects: [(&Obj, &[&str]); 4] = [
        (&top, &["foregroundDeletion"]),
        (&middle, &["foregroundDeletion"]),
        (&held, &["example.com/archive"]),
        (&other, &["example.com/backup"]),
    ];
    let report = report(&mut cluster(&objects));
    assert_eq!(
        sentences(&report),
        [
            "2 objects wait for ConfigMap/receipt (finalizer example.com/archive)",
            "ConfigMap/other waits for finalizer example.com/backup"
        ]
    );
    assert_eq!((report.stuck, report.groups[0].object_count, report.groups[0].holder_count), (4, 3, 1));
    assert_eq!(report.groups[0].oldest.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert!(report.groups[0].advice[0].starts_with("Finalizer example.com/archive: "));
}

#[test]
fn objects_with_the_same_finalizer_have_one_cause() {
    let all: Vec<Obj> = (0..30).map(|number| config(&format!("c{number}")).terminating()).collect();
    let finalizers: &[&str] = &["example.com/backup"];
    let report = report(&mut cluster(&all.iter().map(|obj| (obj, finalizers)).collect::<Vec<_>>()));
    assert_eq!(sentences(&report), ["30 objects wait for finalizer example.com/backup"]);
    assert_eq!((report.groups[0].holders.len(), report.groups[0].object_count), (20, 30));
}

#[test]
fn each_kind_of_hold_has_its_words() {
    let top = config("top").foreground();
    let live = pod("live").blocking(&top).owned(&config("other"));
    let word = |objects: &[(&Obj, &[&str])]| {
        let report = report(&mut cluster(objects));
        report.groups.iter().map(|group| group.cause.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(word(&[(&pod("p").terminating(), &[])]), "gracePeriod");
    assert_eq!(word(&[(&pod("p").orphaning(), &["orphan"])]), "orphaning");
    assert_eq!(word(&[(&config("p").foreground(), &["foregroundDeletion"])]), "unblocked");
    assert_eq!(word(&[(&config("p").foreground(), &["foregroundDeletion", "x.io/y"])]), "finalizers");
    assert_eq!(word(&[(&top, &["foregroundDeletion"]), (&pod("p").blocking(&top), &[])]), "toBeDeleted");
    let owners: [(&Obj, &[&str]); 3] =
        [(&top, &["foregroundDeletion"]), (&live, &[]), (&config("other"), &[])];
    assert_eq!(word(&owners), "toBeReleased");
    let reference = OwnerReference { api_version: "gone.io/v1".into(), ..config("x").reference() };
    let open = pod("p").blocking(&top).with(reference);
    assert_eq!(word(&[(&top, &["foregroundDeletion"]), (&open, &[])]), "undecided");
    let (a, b) = (config("a").foreground(), config("b").foreground());
    let circle: [(&Obj, &[&str]); 2] =
        [(&a.clone().blocking(&b), &["foregroundDeletion"]), (&b.blocking(&a), &["foregroundDeletion"])];
    assert_eq!(word(&circle), "circle");
}

#[test]
fn what_was_deleted_just_now_is_not_stuck() {
    let item = pod("p").terminating();
    let mut cluster = cluster(&[(&item, &["example.com/a"])]);
    let remaining = remaining(&mut cluster);
    let report = cluster.ask(|asker| stuck(asker, &remaining, "2025-12-31T23:59:59Z"));
    assert_eq!((report.stuck, report.being_deleted, report.groups.len()), (0, 1, 0));
    let report = cluster.ask_with(0, |asker| stuck(asker, &remaining, NOW));
    assert_eq!((report.stuck, report.not_read), (0, 1));
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
        let report = report(&mut cluster);
        let names = |uids: &mut dyn Iterator<Item = String>| uids.collect::<std::collections::BTreeSet<_>>();
        let grouped = names(&mut report.groups.iter().flat_map(|group| &group.objects).map(|name| name.name.clone()));
        let deleted = all.iter().filter(|obj| obj.facts.being_deleted);
        let stuck = names(&mut deleted.map(|obj| obj.facts.name.to_string()));
        prop_assert_eq!(report.stuck, stuck.len());
        prop_assert_eq!(grouped, stuck);
    }
}
