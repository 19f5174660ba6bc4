use std::collections::HashSet;

use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::{Catalog, Key, OwnerReference, ServedKind, Uid};

/// What is wrong in a cluster; the first findings are listed.
fn check(cluster: &mut Cluster, most: usize) -> CheckReport {
    let survey = Survey::of(&mut cluster.graph, None);
    let mut report = CheckReport::new(&survey);
    for key in &survey.suspects {
        let suspect = Suspect::of(&mut cluster.graph, key).unwrap();
        let checked = cluster.ask(|asker| check_object(asker, &suspect, &survey.circles));
        report.add(checked.unwrap(), most);
    }
    report.keep_first(most);
    report
}

/// Effect, class, object and hint of each finding.
fn rows(cluster: &mut Cluster) -> Vec<String> {
    let row = |finding: &Finding| {
        let Finding { effect, class, object, hint, .. } = finding;
        format!("{} {} {object}: {hint}", effect.into_str(), class.into_str())
    };
    check(cluster, 1000).findings.iter().map(row).collect()
}

fn of_kind(obj: &Obj, api_version: &str, kind: &str) -> OwnerReference {
    OwnerReference { api_version: api_version.into(), kind: kind.into(), ..obj.reference() }
}

/// `tests/insight/check.rs` shows that the collector does what each effect says.
#[test]
fn each_class_has_its_hint() {
    let (a, b, c, elsewhere) = (config("a"), config("b"), config("c"), obj("configmaps", "other", "a"));
    let (widget, above) = (obj("widgets.example.com", "ns", "w"), config("top"));
    let (one, other) = (config("a").uid("u"), obj("widgets.example.com", "ns", "b").uid("u"));
    let of_kind = |api_version, kind| pod("p").with(of_kind(&a, api_version, kind));
    let same = widget.reference();
    let twice = OwnerReference { api_version: "example.com/v1".into(), kind: "widget".into(), ..same };
    let ring = [a.clone().owned(&b).owned(&above), b.clone().owned(&c), c.clone().owned(&a)];
    let of_version = |version: &str| OwnerReference { api_version: version.into(), ..widget.reference() };
    let nowhere = "leaks unresolved Pod/p: the server does not have this kind";
    let several = "odd collision Pod/p: another reference with this uid names another object";
    for (objects, expected) in [
        (vec![a.clone(), pod("p").owned(&a), node("node"), pod("n").owned(&node("node"))], &[][..]),
        (vec![pod("p").owned(&a)], &["deletes absent Pod/p: the owner does not exist"]),
        (
            vec![elsewhere.clone(), pod("p").owned(&elsewhere)],
            &["deletes other_namespace Pod/p: an owner is only looked for in the same namespace"],
        ),
        (
            vec![a.clone(), pod("p").owned(&b.clone().uid("a"))],
            &["deletes other_name Pod/p: the owner has another name"],
        ),
        (
            vec![a.clone(), of_kind("v1", "Pod")],
            &["deletes other_kind Pod/p: the owner has another apiVersion or kind"],
        ),
        (
            vec![of_kind("old.example.com/v1", "Widget")],
            &["leaks unresolved Pod/p: served as example.com/v2"],
        ),
        (vec![of_kind("v1", "Nothing")], &[nowhere]),
        (
            vec![of_kind("v1", "Nothing").owned(&b)],
            &[nowhere, "leaks absent Pod/p: the owner does not exist"],
        ),
        (
            vec![pod("p").owned(&b).owned(&a), a.clone()],
            &["odd absent Pod/p: the collector removes this reference"],
        ),
        (vec![of_kind("v1", "configMap")], &["leaks unresolved Pod/p: the case of the kind is wrong"]),
        (
            vec![of_kind("example.com/v1alpha1", "Widget")],
            &["leaks unserved_version Pod/p: served as example.com/v2"],
        ),
        // Two versions of one reference are no collision.
        (
            vec![widget.clone(), pod("p").owned(&widget).with(of_version("example.com/v9"))],
            &["leaks unserved_version Pod/p: served as example.com/v2"],
        ),
        (
            vec![node("n").owned(&a), a.clone()],
            &["leaks invalid_scope Node/n: a cluster-scoped object cannot have a namespaced owner"],
        ),
        (
            vec![one.clone(), other, pod("p").owned(&one)],
            &["odd collision Pod/p: different objects have this uid"],
        ),
        (
            vec![one.clone(), pod("p").owned(&one).owned(&b.clone().uid("u"))],
            &[several, "odd other_name Pod/p: the owner has another name", several],
        ),
        (
            vec![widget.clone(), pod("p").owned(&widget).with(twice)],
            &["odd duplicate Pod/p: an earlier reference names the same owner"],
        ),
        (vec![a.clone().owned(&a)], &["odd self ConfigMap/a: the object keeps itself"]),
        (
            ring.iter().chain([&pod("p").owned(&a), &above]).cloned().collect(),
            &[
                "odd ring ConfigMap/a: 3 objects keep each other",
                "odd ring ConfigMap/b: 3 objects keep each other",
                "odd ring ConfigMap/c: 3 objects keep each other",
            ],
        ),
        // What is being deleted is no finding, nor what waits for its owner.
        (vec![pod("p").owned(&a).terminating()], &[]),
        (vec![a.clone().foreground(), pod("p").owned(&a.clone().foreground())], &[]),
    ] {
        let mut cluster = Cluster::of(&objects.iter().collect::<Vec<_>>());
        assert_eq!(rows(&mut cluster), expected);
    }
}

/// The line is about the first of them.
#[test]
fn how_to_keep_an_object_is_said_if_a_collector_may_delete_it() {
    let (here, gone, secret) = (config("here"), config("gone"), config("secret"));
    let unserved = of_kind(&gone, "v1", "Nothing");
    let (goes, stays) = (pod("goes").owned(&gone), pod("stays").owned(&gone).owned(&here));
    let may_go = pod("may").with(unserved.clone());
    let unknown = pod("unknown").owned(&gone).owned(&secret);
    let scoped = node("scoped").owned(&here).owned(&node("gone"));
    for (objects, named) in [
        (vec![&goes], Some(("goes", false))),
        (vec![&may_go], Some(("may", false))),
        (vec![&unknown], Some(("unknown", false))),
        (vec![&may_go, &goes, &stays], Some(("goes", true))),
        (vec![&stays, &scoped], None),
    ] {
        let all: Vec<&Obj> = objects.into_iter().chain([&here]).collect();
        let mut cluster = Cluster::of(&all).reading(&secret, Live::Failed("403".into()));
        let said = named.map(|(name, is_of_several)| {
            let each = if is_of_several { ", for each object as for this one" } else { "" };
            format!(
                "Removing all owner references of Pod/{name} in one change keeps it from garbage collection, but not \
                 from the end of its namespace, or from a controller that adopts it{each}: kubectl patch pods {name} -n \
                 ns --type=json -p "
            )
        });
        let advice = check(&mut cluster, 1000).advice();
        let is_said = advice.as_deref().zip(said.as_deref()).map(|(advice, said)| advice.starts_with(said));
        assert_eq!((advice.is_some(), is_said), (named.is_some(), named.map(|_| true)), "{advice:?}");
    }
}

#[test]
fn an_absence_needs_a_live_read() {
    let item = pod("p").owned(&config("gone"));
    let mut cluster = Cluster::of(&[&item]);
    let survey = Survey::of(&mut cluster.graph, None);
    let suspect = Suspect::of(&mut cluster.graph, &survey.suspects[0]).unwrap();
    let checked = cluster.ask_with(0, |asker| check_object(asker, &suspect, &survey.circles)).unwrap();
    assert_eq!((checked.findings.len(), checked.not_asked), (0, 1), "beyond the limit");
    let mut cluster = Cluster::of(&[&item]).read(&config("gone"), &[]);
    assert_eq!(rows(&mut cluster), [""; 0], "the list was older than the owner");
    let (old, new) = (config("a").uid("old"), config("a").uid("new"));
    let taken = Live::Absent(AbsenceEvidence::OtherUid(new.facts.uid.clone()));
    let mut cluster = Cluster::of(&[&new, &pod("p").owned(&old)]).reading(&old, taken);
    assert_eq!(rows(&mut cluster), ["deletes recreated Pod/p: a restored owner has a new uid"]);
    let found = check(&mut cluster, 1).findings[0].found.clone().unwrap();
    assert_eq!((found.to_string().as_str(), found.uid.as_str()), ("ConfigMap/a", "new"));
}

#[test]
fn the_effect_follows_from_all_references_of_an_object() {
    let (gone, here, secret) = (config("gone"), config("here"), config("secret"));
    let unserved = of_kind(&config("other"), "v1", "Nothing");
    let kept = pod("p").owned(&gone).owned(&here);
    for (item, expected) in [
        (kept.clone(), &[(CheckEffect::Odd, Class::Absent)][..]),
        (
            kept.with(unserved.clone()),
            &[(CheckEffect::Leaks, Class::Absent), (CheckEffect::Leaks, Class::Unresolved)],
        ),
        (pod("p").owned(&gone).owned(&secret), &[(CheckEffect::Unknown, Class::Absent)]),
        (pod("p").owned(&secret), &[]),
        (pod("p").with(unserved).owned(&secret), &[(CheckEffect::Leaks, Class::Unresolved)]),
    ] {
        let mut cluster = Cluster::of(&[&here, &item]).reading(&secret, Live::Failed("403".into()));
        let found = check(&mut cluster, 1000).findings;
        let found: Vec<_> = found.iter().map(|finding| (finding.effect, finding.class)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn an_api_that_does_not_answer_leaks_for_now() {
    let mut builder = Catalog::builder();
    builder.unread("metrics.example.com", "v1");
    let pods = resource("pods");
    builder.add(ServedKind { version: "v1".into(), resource: std::sync::Arc::clone(&pods) });
    let catalog = std::sync::Arc::new(builder.build());
    let mut graph = LocalGraph::new(&catalog, HashSeed::new(1));
    let item = pod("p").with(of_kind(&config("a"), "metrics.example.com/v1", "Metric"));
    graph.begin(&pods);
    graph.add(&pods, vec![item.facts]);
    graph.end(&pods, None);
    let survey = Survey::of(&mut graph, None);
    let suspect = Suspect::of(&mut graph, &survey.suspects[0]).unwrap();
    let knowledge = Knowledge::new(Outside::default());
    let checked = ask(&knowledge, &catalog, 0, |asker| check_object(asker, &suspect, &survey.circles));
    let checked = checked.unwrap().unwrap();
    assert_eq!((checked.effect, checked.findings[0].class), (CheckEffect::Leaks, Class::Unresolved));
    assert_eq!(checked.findings[0].hint, "this API does not answer");
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
    let gone = config("gone").uid(&"x".repeat(10_000));
    all.push(pod("p").owned(&gone).owned(&gone));
    let report = check(&mut Cluster::of(&all.iter().collect::<Vec<_>>()), 5);
    let classes: Vec<_> = report.findings.iter().map(|finding| finding.class).collect();
    assert_eq!(classes[..3], [Class::Absent, Class::Absent, Class::Duplicate]);
    assert_eq!((report.finding_count, report.broken_references, report.findings.len()), (33, 32, 5));
    assert_eq!((report.broken_objects.deletes, report.broken_objects.odd), (1, 30));
    assert!(report.findings[0].owner.uid.len() < 300, "a uid of any length is cut");
}
