use super::*;
use kube_gc_core::graph::testing::world::*;
use proptest::prelude::*;

/// The rows as text.
fn drawn(shown: &Neighbourhood) -> Vec<String> {
    let rows = rows(shown).into_iter().map(|row| {
        let what = match row.kind {
            RowKind::Owner(place) | RowKind::Root(place) => shown.nodes[place].name.to_string(),
            RowKind::Dependent { place, is_above } => {
                shown.nodes[place].name.to_string() + if is_above { " (above)" } else { "" }
            }
            RowKind::More(place) => format!("{} more {}", shown.more[place].count, shown.more[place].kind),
        };
        row.prefix + &what
    });
    rows.collect()
}

#[test]
fn owners_are_above_and_dependents_below() {
    let top = obj("widgets.example.com", "ns", "top");
    let root = config("root").owned(&top);
    let (a, b) = (pod("a").owned(&root), pod("b").owned(&root));
    let below = config("below").owned(&a);
    let shown = Cluster::of(&[&top, &root, &a, &b, &below]).neighbourhood(&root);
    assert_eq!(
        drawn(&shown),
        ["Widget/top", "└─ ConfigMap/root", "   ├─ Pod/a", "   │  └─ ConfigMap/below", "   └─ Pod/b"]
    );
}

#[test]
fn an_object_with_two_owners_is_expanded_once() {
    let root = config("root");
    let (a, b) = (config("a").owned(&root), config("b").owned(&root));
    let both = pod("p").owned(&a).owned(&b);
    let shown = Cluster::of(&[&root, &a, &b, &both]).neighbourhood(&root);
    assert_eq!(
        drawn(&shown),
        ["ConfigMap/root", "├─ ConfigMap/a", "│  └─ Pod/p", "└─ ConfigMap/b", "   └─ Pod/p (above)"]
    );
}

#[test]
fn a_ring_ends() {
    let a = config("a").owned(&config("b"));
    let b = config("b").owned(&config("a"));
    let shown = Cluster::of(&[&a, &b]).neighbourhood(&a);
    assert_eq!(shown.nodes.len(), 2);
    assert!(drawn(&shown).len() <= 4, "{:?}", drawn(&shown));
}

#[test]
fn an_owner_of_an_owner_that_is_in_no_list_is_read() {
    let top = config("top");
    let owner = config("owner").owned(&top);
    let item = pod("p").owned(&owner);
    let shown = Cluster::of(&[&item]).read(&owner, &[]).read(&top, &[]).neighbourhood(&item);
    assert_eq!(drawn(&shown), ["ConfigMap/top", "└─ ConfigMap/owner", "   └─ Pod/p"]);
}

#[test]
fn an_absent_owner_is_shown_as_absent() {
    let item = pod("p").owned(&config("gone"));
    let shown = Cluster::of(&[&item]).neighbourhood(&item);
    assert_eq!(shown.nodes[1].state, State::Absent);
}

#[test]
fn those_that_are_being_deleted_come_first() {
    let root = config("root");
    let mut all: Vec<Obj> = (0..100).map(|number| pod(&format!("a{number:03}")).owned(&root)).collect();
    all.push(pod("z").owned(&root).terminating());
    all.push(root.clone());
    let shown = Cluster::of(&all.iter().collect::<Vec<_>>()).neighbourhood(&root);
    let names: Vec<_> = shown.nodes.iter().map(|node| &*node.name.name).take(3).collect();
    assert_eq!(names, ["root", "z", "a000"]);
    assert_eq!(shown.more[0].count, 81);
    assert_eq!(shown.more[0].being_deleted, 0);
}

#[test]
fn the_dependents_of_a_cluster_scoped_owner_are_shown_with_theirs() {
    let root = node("n");
    let item = pod("p").owned(&root);
    let below = config("c").owned(&item);
    let shown = Cluster::of(&[&root, &item, &below]).neighbourhood(&root);
    assert_eq!(drawn(&shown), ["Node/n", "└─ Pod/p", "   └─ ConfigMap/c"]);
}

proptest! {
    /// Nothing is lost: what is not shown is counted.
    #[test]
    fn every_dependent_is_shown_or_counted(counts in prop::collection::vec(0..60_usize, 1..12), limit in 1..60_usize) {
        let root = config("root");
        let mut all = vec![root.clone()];
        for (number, &count) in counts.iter().enumerate() {
            let middle = config(&format!("m{number}")).owned(&root);
            all.extend((0..count).map(|index| pod(&format!("p{number}-{index}")).owned(&middle)));
            all.push(middle);
        }
        let mut cluster = Cluster::of(&all.iter().collect::<Vec<_>>());
        let query = NeighbourhoodQuery { root: root.identity(), up: 3, down: 3, limit };
        let shown = cluster.ask(|asker| neighbourhood(asker, &query));
        prop_assert!(shown.nodes.len() <= limit);
        for (place, node) in shown.nodes.iter().enumerate() {
            let Some(identity) = &node.identity else { continue };
            let uid = &identity.uid;
            let all = all.iter().filter(|obj| obj.facts.owners.iter().any(|owner| owner.uid == *uid)).count();
            let drawn = shown.edges.iter().filter(|edge| edge.owner == place).count();
            let more: usize = shown.not_shown(place).map(|more| more.count).sum();
            prop_assert_eq!(drawn + more, all, "{}", node.name);
        }
        prop_assert_eq!(drawn(&shown).len(), 1 + shown.edges.len() + shown.more.len());
    }
}
