//! Queries of workers, the idle probe and debug pages.

use std::collections::BTreeSet;

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

#[test]
fn pages_of_dependents_stay_valid_while_dependents_are_removed() {
    let owner = node("n");
    let pods: Vec<Obj> = (0..10)
        .map(|n| obj("pods", ["a", "b", "c"][n % 3], &format!("p{n}")).owned(&owner).owned(&owner))
        .collect();
    let mut w = World::of(3, &pods.iter().collect::<Vec<_>>());
    w.see(&[&obj("things.example.com", "", "local").owned(&owner)]);
    let mut seen = Vec::new();
    for some in w.partition("").dependents(&owner.key()).chunks(3) {
        let page = w.partition("").dependent_views(&owner.key(), some);
        assert!(page.iter().all(|view| view.reference == owner.reference()));
        if let Some(view) = page.first() {
            let gone = pods.iter().find(|pod| pod.identity() == view.identity);
            gone.into_iter().for_each(|pod| w.delete(pod));
        }
        seen.extend(page.into_iter().map(|view| view.identity.name.to_string()));
    }
    seen.sort();
    assert_eq!(seen, ["local", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"]);
}

fn views(partition: &Partition, owner: &Obj) -> Vec<DependentView> {
    partition.dependent_views(&owner.key(), &partition.dependents(&owner.key()))
}

#[test]
fn a_view_counts_references_and_says_whether_they_share_a_uid() {
    let (far, near) = (node("n"), config("owner"));
    let other = OwnerReference { kind: "Nobody".into(), ..far.reference() };
    let mut w = World::of(
        2,
        &[&far, &near, &pod("plain").owned(&far).owned(&near), &pod("twice").owned(&far).with(other)],
    );
    let shares = views(w.partition(""), &far).into_iter().map(|view| (view.identity.name, view.shares_uid));
    assert_eq!(shares.collect::<BTreeSet<_>>(), [("plain".into(), false), ("twice".into(), true)].into());
    let counts = views(w.partition("ns"), &near).into_iter().map(|view| view.reference_count);
    assert_eq!(counts.collect::<Vec<_>>(), [2]);
}

#[test]
fn a_type_concerns_its_owners_and_their_dependents() {
    let (owner, far) = (config("owner"), node("n"));
    let near = pod("near").owned(&owner);
    let below = pod("below").owned(&far).owned(&pod("p"));
    let nobodys = pod("nobodys").with(OwnerReference { kind: "Nobody".into(), ..owner.reference() });
    let mut w = World::of(2, &[&near, &below, &nobodys]);
    let types = |names: &str| names.split(' ').map(GroupResource::parse).collect::<BTreeSet<_>>();
    let mut concerned = |name: &str| -> Vec<&str> {
        let by = types(name);
        let all = [("owner", &owner), ("near", &near), ("below", &below), ("nobodys", &nobodys)];
        let mut is = |object: &Obj| w.partition("ns").is_concerned(&object.key(), &by);
        all.into_iter().filter(|(_, object)| is(object)).map(|(name, _)| name).collect()
    };
    assert_eq!(concerned("configmaps"), ["owner", "near"]);
    assert_eq!(concerned("nodes"), ["below"], "an owner in another partition counts");
    assert_eq!(concerned("widgets.example.com"), Vec::<&str>::new());
    assert_eq!(concerned("widgets.example.com configmaps nodes"), ["owner", "near", "below"]);
    let gone = pod("gone").key();
    assert!(w.partition("ns").is_concerned(&gone, &types("nodes")), "a key without a node always counts");
}

#[test]
fn all_work_can_be_derived_again() {
    let (solid, absent, far) = (config("solid"), config("absent"), node("far"));
    let mut w = World::of(
        2,
        &[&solid, &absent, &far, &config("waiting").foreground(), &config("orphans").orphaning()],
    );
    w.see(&[
        &pod("fine").owned(&solid).owned(&far),
        &pod("dangling").owned(&absent),
        &pod("waits").owned(&config("waiting")).owned(&solid),
        &pod("guess").owned(&config("virtual")),
        &pod("gone-far").owned(&node("nowhere")),
        &pod("going").owned(&absent).terminating(),
    ]);
    w.delete(&absent);
    w.forget();
    for partition in &w.partitions {
        partition.rederive(&mut w.out);
    }
    let expected = ["dangling", "gone-far", "guess", "nowhere", "virtual", "waiting", "waits"];
    assert_eq!(w.queued(), expected);
    assert_eq!(w.queued_orphaning(), ["orphans"]);
}

/// Rule 3.7.
#[test]
fn a_uid_is_located_wherever_it_is_observed() {
    let mut w = World::of(1, &[&pod("a").owned(&config("owner"))]);
    let uid = |text| Uid::parse(text).unwrap();
    assert_eq!(w.partition("ns").observed(&uid("a")), Some(pod("a").identity()));
    assert_eq!(w.partition("ns").observed(&uid("owner")), None, "no monitor shows it");
    assert_eq!(w.partition("ns").only_named(&uid("owner")), [config("owner").identity()]);
    assert_eq!(w.partition("ns").only_named(&uid("a")), []);
}

#[test]
fn a_search_has_whole_names_first_and_owners_before_others() {
    let owner = config("web-owner");
    let named = ["a-web", "web-b", "web", "web-a"].map(pod);
    let mut w = World::of(1, &[&owner, &pod("other").owned(&owner)]);
    w.see(&named.iter().collect::<Vec<_>>());
    let mut search = |text: &str, most| -> Vec<String> {
        let query = SearchQuery { text: text.to_owned(), ..SearchQuery::default() };
        let (found, next) = w.partition("ns").page_of_search(&[query], None, usize::MAX, most);
        assert_eq!(next, None);
        found.into_iter().map(|(_, identity, _)| identity.name.to_string()).collect()
    };
    assert_eq!(search("web", 10), ["web", "web-owner", "web-a", "web-b", "a-web"]);
    assert_eq!(search("pod/WEB", 2), ["web", "web-a"]);
    let typed = SearchQuery { resource: Some(GroupResource::parse("pods")), ..SearchQuery::default() };
    let mut found = |text: &str| {
        let query = SearchQuery { text: text.to_owned(), ..typed.clone() };
        w.partition("ns").found_by(&query).count()
    };
    assert_eq!([found("web"), found("pod"), found("pod/web")], [4, 0, 3], "a part of the kind says nothing");
}

/// As long as something names them. No object has a name as long as that of a hostile reference.
#[test]
fn a_search_may_find_absent_owners() {
    let (owner, long) = (config("web-owner"), config(&"web".repeat(100)));
    let mut w = World::of(1, &[&owner, &long, &pod("a").owned(&owner), &pod("b").owned(&long)]);
    w.see(&[&pod("c").owned(&config("web-unverified"))]);
    w.delete(&owner);
    w.delete(&long);
    for (or_absent, expected) in [(false, &[][..]), (true, &["web-owner"])] {
        let query = SearchQuery { text: "web".to_owned(), or_absent, ..SearchQuery::default() };
        let (found, _) = w.partition("ns").page_of_search(&[query], None, usize::MAX, 10);
        let found = found.iter().map(|(_, identity, _)| &*identity.name);
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}

/// The text is a part of `Kind/name`, in any case. Of several searches, the first counts that finds
/// anything.
#[test]
fn a_search_takes_a_part_of_kind_and_name_and_the_first_of_several_that_finds_anything() {
    let mut w = World::new(1);
    // The stub of an owner whose kind is not served has no type.
    let unserved = obj("widgets.example.com", "ns", "web-widget");
    let resource = unserved.resource.group_resource.to_string();
    w.remove_type(&resource);
    w.set_catalog(&catalog_without(&[&resource]));
    w.see(&[&config("Web"), &pod("web-a").owned(&unserved)]);
    let text = |text: &str| SearchQuery { text: text.to_owned(), ..SearchQuery::default() };
    let mut search = |queries: &[SearchQuery]| -> Vec<(usize, String)> {
        let (found, _) = w.partition("ns").page_of_search(queries, None, usize::MAX, 10);
        found.into_iter().map(|(fit, identity, _)| (fit.search, identity.name.to_string())).collect()
    };
    for (part, count) in [
        ("", 2),
        ("WEB", 2),
        ("gm", 1),
        ("P/we", 2),
        ("ConfigMap/web", 1),
        ("map/eb", 0),
        ("d/web-a", 1),
        ("/", 2),
    ] {
        assert_eq!(search(&[text(part)]).len(), count, "{part}");
    }
    let typed = |resource| SearchQuery { resource: Some(GroupResource::parse(resource)), ..text("web") };
    let found = search(&[typed("secrets"), typed("pods"), text("web")]);
    assert_eq!(found[0], (1, "web-a".to_owned()));
    assert_eq!(
        search(&[text("web"), typed("pods")])[0],
        (0, "Web".to_owned()),
        "the whole name, in any case"
    );
}
