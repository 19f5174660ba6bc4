//! Queries of workers, the idle probe and debug pages.

use std::collections::BTreeSet;

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

#[test]
fn pages_of_dependents_stay_valid_while_dependents_are_removed() {
    let mut w = World::new(3);
    let owner = node("n");
    let pods: Vec<Obj> = (0..10)
        .map(|n| obj("pods", ["a", "b", "c"][n % 3], &format!("p{n}")).owned(&owner).owned(&owner))
        .collect();
    w.see(&pods.iter().collect::<Vec<_>>());
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
fn two_references_with_one_uid_are_reported_across_partitions() {
    let mut w = World::new(2);
    let owner = node("n");
    let other = OwnerReference { kind: "Nobody".into(), ..owner.reference() };
    w.see(&[&owner, &pod("plain").owned(&owner), &pod("twice").owned(&owner).with(other)]);
    let page = views(w.partition(""), &owner);
    let mut views: Vec<_> = page.iter().map(|view| (&*view.identity.name, view.shares_uid)).collect();
    views.sort_unstable();
    assert_eq!(views, [("plain", false), ("twice", true)]);
}

#[test]
fn the_references_of_a_dependent_are_counted() {
    let mut w = World::new(2);
    let owner = config("owner");
    w.see(&[&owner, &pod("one").owned(&owner), &pod("two").owned(&owner).owned(&node("n"))]);
    let page = views(w.partition("ns"), &owner);
    let mut views: Vec<_> = page.iter().map(|view| (&*view.identity.name, view.reference_count)).collect();
    views.sort_unstable();
    assert_eq!(views, [("one", 1), ("two", 2)]);
}

#[test]
fn a_type_concerns_its_owners_and_their_dependents() {
    let mut w = World::new(2);
    let (owner, far) = (config("owner"), node("n"));
    let near = pod("near").owned(&owner);
    let below = pod("below").owned(&far).owned(&pod("p"));
    let nobodys = pod("nobodys").with(OwnerReference { kind: "Nobody".into(), ..owner.reference() });
    w.see(&[&near, &below, &nobodys]);
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
fn an_owner_in_partition_0_is_queried_there() {
    let mut w = World::new(2);
    let a = pod("a").owned(&node("n"));
    w.see(&[&node("n"), &a]);
    let OwnerView::Remote(identity) = w.object(&a).references.remove(0).owner else { panic!() };
    let state = OwnerState::Observed {
        resource_version: Some(ResourceVersion::number(10)),
        deletion: DeletionState::Live,
    };
    assert_eq!(w.partition("").owner_state(&identity), state);
    w.see(&[&node("n").foreground().at(11)]);
    let OwnerState::Observed { deletion, .. } = w.partition("").owner_state(&identity) else { panic!() };
    assert_eq!(deletion, DeletionState::DeletingDependents);
}

#[test]
fn all_work_can_be_derived_again() {
    let mut w = World::new(2);
    let (solid, absent, far) = (config("solid"), config("absent"), node("far"));
    w.see(&[&solid, &absent, &far, &config("waiting").foreground(), &config("orphans").orphaning()]);
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
    let mut w = World::new(1);
    w.see(&[&pod("a").owned(&config("owner"))]);
    let uid = |text| Uid::parse(text).unwrap();
    assert_eq!(w.partition("ns").observed(&uid("a")), Some(pod("a").identity()));
    assert_eq!(w.partition("ns").observed(&uid("owner")), None, "no monitor shows it");
}

#[test]
fn merged_dumps_show_every_object_once_from_the_best_source() {
    let mut w = World::new(3);
    let far = node("far").foreground();
    let unknown = OwnerReference { kind: "Nobody".into(), ..config("x").reference() };
    w.see(&[&far, &pod("a").owned(&far).owned(&config("guess")), &obj("pods", "b", "b").owned(&far)]);
    w.see(&[&pod("lonely"), &pod("c").with(unknown)]);
    let dump = w.dump();
    let fields: Vec<String> = dump
        .nodes
        .values()
        .map(|n| {
            let state = [n.missing, n.is_virtual, n.deleting_dependents]
                .map(|flag| char::from(b'0' + u8::from(flag)));
            format!("{} {}", n.label, state.iter().collect::<String>())
        })
        .collect();
    let expected = [
        "Pod ns/a 000",
        "Pod b/b 000",
        "Pod ns/c 000",
        "Node far 001",
        "ConfigMap ns/guess 010",
        "Nobody x 100",
    ];
    assert_eq!(fields, expected);
    assert_eq!(dump.edges.len(), 4);
    let part = dump.component(&[Uid::parse("b").unwrap()]);
    assert_eq!((part.nodes.len(), part.edges.len()), (4, 3));
    assert!(part.to_dot().contains("\"b/pods\" -> \"far/nodes\";"));
    let json = part.to_json();
    assert_eq!(json["nodes"][0]["id"], "a/pods");
    assert_eq!(json["nodes"][0]["virtual"], false);
    assert_eq!(json["edges"][0]["child"], "a/pods");
    let lonely = Uid::parse("lonely").unwrap();
    assert_eq!(
        w.partition("ns").dump(Some(std::slice::from_ref(&lonely))).component(&[lonely]).nodes.len(),
        1
    );
}

#[test]
fn a_read_only_query_queues_nothing() {
    let mut w = World::new(2);
    let owner = pod("owner").foreground();
    let dependent = pod("dependent").blocking(&owner);
    w.see(&[&owner, &dependent]);
    let shown = w.partition("ns").observed_object(&owner.identity().key()).unwrap();
    assert_eq!(shown.deletion, DeletionState::DeletingDependents);
    assert!(shown.finalizers.foreground && shown.references.is_empty());
    let shown = w.partition("ns").observed_object(&dependent.identity().key()).unwrap();
    assert_eq!(shown.references, dependent.facts.owners);
    w.delete(&owner);
    assert_eq!(
        w.partition("ns").observed_object(&owner.identity().key()),
        None,
        "known only by the reference of a dependent"
    );
}
