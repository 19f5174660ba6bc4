use std::collections::HashSet;

use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::{GroupResource, Key, OwnerReference, Uid};

/// What is wrong in a cluster.
pub fn check(cluster: &mut Cluster) -> CheckReport {
    let survey = Survey::of(&mut cluster.graph, None);
    let mut report = CheckReport::new(&survey);
    for key in &survey.suspects {
        let suspect = Suspect::of(&mut cluster.graph, key).unwrap();
        let checked = cluster.ask(|asker| check_object(asker, &suspect, &survey.circles));
        report.add(checked.unwrap(), 1000);
    }
    report.keep_first(1000);
    report
}

/// CheckEffect, class, object and hint of each finding.
fn rows(cluster: &mut Cluster) -> Vec<String> {
    let row = |finding: &Finding| {
        let Finding { effect, class, object, hint, .. } = finding;
        format!("{} {} {object}: {hint}", effect.into_str(), class.into_str())
    };
    check(cluster).findings.iter().map(row).collect()
}

fn rows_of(objects: &[&Obj]) -> Vec<String> {
    rows(&mut Cluster::of(objects))
}

fn of_kind(obj: &Obj, api_version: &str, kind: &str) -> OwnerReference {
    OwnerReference { api_version: api_version.into(), kind: kind.into(), ..obj.reference() }
}

fn in_namespace(name: &str, namespace: &str) -> Obj {
    obj("configmaps", namespace, name)
}

#[test]
fn what_is_in_order_is_not_found() {
    let owner = config("a");
    let of_node = pod("n").owned(&node("node"));
    let report = check(&mut Cluster::of(&[&owner, &pod("p").owned(&owner), &of_node, &node("node")]));
    assert_eq!((report.objects, report.references, report.finding_count), (4, 2, 0));
}

#[test]
fn an_absent_owner_deletes_its_dependent_and_only_a_live_read_proves_it() {
    let item = pod("p").owned(&config("gone"));
    let mut cluster = Cluster::of(&[&item]);
    assert_eq!(rows(&mut cluster), ["deletes absent Pod/p: remove the reference to keep the object"]);
    assert!(cluster.needed.contains(&Need::Live(config("gone").identity())));
    let mut cluster = Cluster::of(&[&item]).read(&config("gone"), &[]);
    assert_eq!(rows(&mut cluster), [""; 0], "the list was older than the owner");
}

#[test]
fn an_owner_that_was_created_again_is_another_one() {
    let (old, new) = (config("a").uid("old"), config("a").uid("new"));
    let item = pod("p").owned(&old);
    let taken = Live::Absent(AbsenceEvidence::OtherUid(new.facts.uid.clone()));
    let mut cluster = Cluster::of(&[&new, &item]).reading(&old, taken);
    assert_eq!(rows(&mut cluster), ["deletes recreated Pod/p: restored? name the new uid"]);
    let found = check(&mut cluster).findings[0].found.clone().unwrap();
    assert_eq!((found.to_string().as_str(), found.uid.as_str()), ("ConfigMap/a", "new"));
}

#[test]
fn an_owner_in_another_namespace_is_found_by_its_uid() {
    let owner = in_namespace("a", "other");
    let item = pod("p").owned(&owner);
    assert_eq!(
        rows_of(&[&owner, &item]),
        ["deletes other_namespace Pod/p: an owner must be in the same namespace"]
    );
}

#[test]
fn an_owner_with_another_name_is_found_by_its_uid() {
    let owner = config("a");
    let item = pod("p").owned(&owner.clone().named("b").uid("a"));
    assert_eq!(rows_of(&[&owner, &item]), ["deletes other_name Pod/p: name the owner as it is"]);
}

#[test]
fn an_owner_of_another_kind_is_found_by_its_uid() {
    let owner = config("a");
    let item = pod("p").with(of_kind(&owner, "v1", "Pod"));
    assert_eq!(rows_of(&[&owner, &item]), ["deletes other_kind Pod/p: name the owner's apiVersion and kind"]);
}

#[test]
fn a_kind_that_is_not_served_leaks() {
    let hint = |api_version, kind| {
        let rows = rows_of(&[&pod("p").with(of_kind(&config("a"), api_version, kind))]);
        rows.iter().map(|row| row.replace("leaks unresolved Pod/p: ", "")).collect::<Vec<_>>().join("|")
    };
    assert_eq!(hint("old.example.com/v1", "Widget"), "served as example.com/v2");
    assert_eq!(hint("v1", "Nothing"), "install its API again, or remove the reference");
    assert_eq!(hint("v1", "configMap"), "the case of the kind is wrong");
}

#[test]
fn a_version_that_is_not_served_leaks() {
    let item = pod("p").with(of_kind(&config("a"), "example.com/v1alpha1", "Widget"));
    assert_eq!(rows_of(&[&item]), ["leaks unserved_version Pod/p: served as example.com/v2"]);
}

#[test]
fn a_cluster_scoped_object_with_a_namespaced_owner_leaks() {
    assert_eq!(
        rows_of(&[&node("n").owned(&config("a")), &config("a")]),
        ["leaks invalid_scope Node/n: a cluster-scoped object needs a cluster-scoped owner"]
    );
}

#[test]
fn one_uid_of_two_objects_is_a_collision() {
    let (one, other) = (config("a").uid("u"), obj("widgets.example.com", "ns", "b").uid("u"));
    assert_eq!(
        rows_of(&[&one, &other, &pod("p").owned(&one)]),
        ["odd collision Pod/p: different objects have this uid"]
    );
    let twice = pod("p").owned(&one).owned(&config("b").uid("u"));
    let hint = "another reference with this uid names another object";
    assert_eq!(
        rows_of(&[&one, &twice]),
        [
            format!("odd collision Pod/p: {hint}"),
            "odd other_name Pod/p: name the owner as it is".to_owned(),
            format!("odd collision Pod/p: {hint}"),
        ]
    );
}

#[test]
fn the_same_owner_in_two_versions_is_a_duplicate() {
    let owner = obj("widgets.example.com", "ns", "w");
    let item = pod("p").owned(&owner).with(of_kind(&owner, "example.com/v1", "widget"));
    assert_eq!(rows_of(&[&owner, &item]), ["odd duplicate Pod/p: an earlier reference names the same owner"]);
}

#[test]
fn an_object_that_names_itself_keeps_itself() {
    let item = config("a").owned(&config("a"));
    assert_eq!(rows_of(&[&item]), ["odd self ConfigMap/a: the object keeps itself: remove the reference"]);
}

#[test]
fn objects_that_own_each_other_are_a_ring() {
    let (a, b, c) = (config("a"), config("b"), config("c"));
    let (below, above) = (pod("p").owned(&a), config("top"));
    let ring = [&a.clone().owned(&b).owned(&above), &b.clone().owned(&c), &c.owned(&a), &below, &above];
    let row = |name| format!("odd ring ConfigMap/{name}: 3 objects keep each other: remove a reference");
    assert_eq!(rows_of(&ring), [row("a"), row("b"), row("c")]);
}

#[test]
fn the_effect_follows_from_all_references_of_an_object() {
    let (gone, here) = (config("gone"), config("here"));
    let unserved = of_kind(&config("other"), "v1", "Nothing");
    let effects = |item: Obj, cluster: fn(Cluster) -> Cluster| {
        let mut cluster = cluster(Cluster::of(&[&here, &item]));
        let found = check(&mut cluster).findings;
        found.iter().map(|finding| (finding.effect, finding.class)).collect::<Vec<_>>()
    };
    let as_is = |cluster| cluster;
    let kept = pod("p").owned(&gone).owned(&here);
    assert_eq!(effects(kept.clone(), as_is), [(CheckEffect::Odd, Class::Absent)]);
    let open = kept.with(unserved.clone());
    assert_eq!(
        effects(open, as_is),
        [(CheckEffect::Leaks, Class::Absent), (CheckEffect::Leaks, Class::Unresolved)]
    );
    let failing = |cluster: Cluster| cluster.reading(&config("secret"), Live::Failed("403".into()));
    let unseen = pod("p").owned(&gone).owned(&config("secret"));
    assert_eq!(effects(unseen, failing), [(CheckEffect::Unknown, Class::Absent)]);
    assert_eq!(effects(pod("p").owned(&config("secret")), failing), []);
    let unseen = pod("p").with(unserved).owned(&config("secret"));
    assert_eq!(effects(unseen, failing), [(CheckEffect::Leaks, Class::Unresolved)]);
}

#[test]
fn what_is_being_deleted_is_no_finding() {
    assert_eq!(rows_of(&[&pod("p").owned(&config("gone")).terminating()]), [""; 0]);
    let owner = config("a").foreground();
    assert_eq!(rows_of(&[&owner, &pod("p").owned(&owner)]), [""; 0]);
}

#[test]
fn an_api_that_does_not_answer_leaks_for_now() {
    let mut builder = kube_gc_core::object::Catalog::builder();
    builder.unread("metrics.example.com", "v1");
    let pods = resource("pods");
    builder.add(kube_gc_core::object::ServedKind {
        version: "v1".into(),
        resource: std::sync::Arc::clone(&pods),
    });
    let catalog = std::sync::Arc::new(builder.build());
    let mut graph = LocalGraph::new(&catalog, HashSeed::new(1));
    let item = pod("p").with(of_kind(&config("a"), "metrics.example.com/v1", "Metric"));
    graph.begin(&pods);
    graph.add(&pods, vec![item.facts]);
    graph.end(&pods, None);
    let survey = Survey::of(&mut graph, None);
    let suspect = Suspect::of(&mut graph, &survey.suspects[0]).unwrap();
    let knowledge = Knowledge::default();
    let checked = ask(&knowledge, &catalog, 0, |asker| check_object(asker, &suspect, &survey.circles));
    let checked = checked.unwrap().unwrap();
    assert_eq!((checked.effect, checked.findings[0].class), (CheckEffect::Leaks, Class::Unresolved));
    assert_eq!(checked.findings[0].hint, "this API does not answer");
    assert_eq!(catalog.resource(&GroupResource::parse("pods")), Some(&pods));
}

#[test]
fn owners_beyond_the_limit_are_not_looked_up() {
    let item = pod("p").owned(&config("gone"));
    let mut cluster = Cluster::of(&[&item]);
    let survey = Survey::of(&mut cluster.graph, None);
    let suspect = Suspect::of(&mut cluster.graph, &survey.suspects[0]).unwrap();
    let checked = cluster.ask_with(0, |asker| check_object(asker, &suspect, &survey.circles)).unwrap();
    assert_eq!((checked.findings.len(), checked.not_asked), (0, 1));
}

#[test]
fn only_what_is_selected_is_reported_and_all_is_looked_at() {
    let (a, b) = (config("a"), config("b"));
    let ring = [a.clone().owned(&b), b.clone().owned(&a)];
    let (gone, meant) = (config("gone"), pod("meant").owned(&config("owner")));
    let all = [&ring[0], &ring[1], &config("owner"), &meant, &pod("p").owned(&gone), &pod("q").owned(&gone)];
    let mut cluster = Cluster::of(&all);
    let selected: HashSet<Uid> = [&ring[0], &meant, all[4]].map(|obj| obj.identity().uid).into();
    let survey = Survey::of(&mut cluster.graph, Some(&selected));
    assert_eq!((survey.objects, survey.references), (3, 3));
    let suspects: HashSet<Key> = survey.suspects.into_iter().collect();
    // The owner of one is not selected, but exists. The ring is found by its other member.
    assert_eq!(suspects, [ring[0].key(), all[4].key()].into());
}

#[test]
fn the_worst_findings_are_kept_and_all_are_counted() {
    let mut all: Vec<Obj> = (0..30).map(|number| config(&format!("self{number}"))).collect();
    all = all.iter().map(|item| item.clone().owned(item)).collect();
    all.push(pod("p").owned(&config("gone")).owned(&config("gone")));
    let mut cluster = Cluster::of(&all.iter().collect::<Vec<_>>());
    let survey = Survey::of(&mut cluster.graph, None);
    let mut report = CheckReport::new(&survey);
    for key in &survey.suspects {
        let suspect = Suspect::of(&mut cluster.graph, key).unwrap();
        let checked = cluster.ask(|asker| check_object(asker, &suspect, &survey.circles));
        report.add(checked.unwrap(), 5);
    }
    report.keep_first(5);
    let classes: Vec<_> = report.findings.iter().map(|finding| finding.class).collect();
    assert_eq!(classes[..3], [Class::Absent, Class::Absent, Class::Duplicate]);
    assert_eq!((report.finding_count, report.broken_references, report.findings.len()), (33, 32, 5));
    assert_eq!((report.broken_objects.deletes, report.broken_objects.odd), (1, 30));
}

#[test]
fn a_uid_of_any_length_is_truncated() {
    let long = "x".repeat(10_000);
    let owner = config("gone").uid(&long);
    let found = check(&mut Cluster::of(&[&pod("p").owned(&owner)])).findings;
    assert!(found[0].owner.uid.len() < 300 && Uid::parse(&long).is_some());
}
