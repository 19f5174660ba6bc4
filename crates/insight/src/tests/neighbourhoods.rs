//! What belongs to an object, in pages, and the worst of it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::graph::{Effects, WatchEvent};

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
fn an_object_with_two_owners_is_expanded_once() {
    let root = config("root");
    let (a, b) = (config("a").owned(&root), config("b").owned(&root));
    let both = pod("p").owned(&a).owned(&b);
    let below = config("below").owned(&both);
    let shown = Cluster::of(&[&root, &a, &b, &both, &below]).neighbourhood(&root);
    assert_eq!(
        drawn(&shown),
        [
            "ConfigMap/root",
            "├─ ConfigMap/a",
            "│  └─ Pod/p",
            "│     └─ ConfigMap/below",
            "└─ ConfigMap/b",
            "   └─ Pod/p (above)"
        ]
    );
}

#[test]
fn an_owner_of_an_owner_that_is_in_no_list_is_read() {
    let (top, gone) = (config("top"), config("gone"));
    let owner = config("owner").owned(&top).owned(&gone);
    let item = pod("p").owned(&owner);
    let shown = Cluster::of(&[&item]).read(&owner, &[]).read(&top, &[]).neighbourhood(&item);
    assert_eq!(drawn(&shown), ["ConfigMap/top", "└─ ConfigMap/owner", "   └─ Pod/p"]);
    assert_eq!((&*shown.nodes[3].name.name, shown.nodes[3].state), ("gone", State::Absent));
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
    assert_eq!((shown.more[0].count, shown.more[0].being_deleted), (81, 0));
}

/// All pages, each with at most `limit` objects.
fn pages(cluster: &mut Cluster, root: &Obj, limit: usize) -> Vec<Neighbourhood> {
    let (mut pages, mut after) = (Vec::new(), 0);
    loop {
        let query = NeighbourhoodQuery { root: root.identity(), up: 64, down: 64, limit: after + limit + 1 };
        let whole = cluster.ask(|asker| neighbourhood(asker, &query));
        let (page, next) = page(&whole, after, limit);
        pages.push(page);
        match next {
            Some(next) => assert!(next > std::mem::replace(&mut after, next), "each page has something new"),
            None => return pages,
        }
    }
}

/// The references of a neighbourhood by the names of their objects.
fn references(shown: &Neighbourhood) -> BTreeMap<(String, String), usize> {
    let mut references = BTreeMap::new();
    for edge in &shown.edges {
        let name = |place: usize| shown.nodes[place].name.to_string();
        *references.entry((name(edge.dependent), name(edge.owner))).or_default() += 1;
    }
    references
}

fn names(shown: &Neighbourhood) -> BTreeSet<String> {
    shown.nodes.iter().map(|node| node.name.to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

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
            let more = shown.more.iter().filter(|more| more.owner == place).map(|more| more.count);
            prop_assert_eq!(drawn + more.sum::<usize>(), all, "{}", node.name);
        }
        prop_assert_eq!(drawn(&shown).len(), 1 + shown.edges.len() + shown.more.len());
    }

    /// All pages together are the whole neighbourhood.
    #[test]
    fn no_page_leaves_anything_out(
        owners in proptest::collection::vec((0..12_usize, 0..12_usize), 0..30),
        limit in 4..9_usize,
    ) {
        let mut objects: Vec<Obj> = (0..12).map(|number| config(&format!("c{number}"))).collect();
        for (dependent, owner) in owners {
            let owner = objects[owner].clone();
            objects[dependent] = objects[dependent].clone().owned(&owner);
        }
        let mut cluster = Cluster::of(&objects.iter().collect::<Vec<_>>());
        // As deep as the pages.
        let query = NeighbourhoodQuery { root: objects[0].identity(), up: 64, down: 64, limit: 100 };
        let whole = cluster.ask(|asker| neighbourhood(asker, &query));
        let pages = pages(&mut cluster, &objects[0], limit);
        let shown: BTreeSet<String> = pages.iter().flat_map(names).collect();
        prop_assert_eq!(shown, names(&whole));
        prop_assert!(pages.iter().all(|page| page.nodes.len() <= limit));
        let mut all: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (reference, count) in pages.iter().flat_map(references) {
            *all.entry(reference).or_default() += count;
        }
        if pages.iter().all(|page| !page.truncated) {
            prop_assert_eq!(&all, &references(&whole));
        }
        let mut joined = Neighbourhood::default();
        for page in pages {
            join(&mut joined, page);
        }
        prop_assert_eq!(names(&joined), names(&whole));
        prop_assert_eq!(references(&joined), all);
        // A reference that no page has room for stays among what is not shown.
        let has_all = joined.edges.len() == whole.edges.len();
        prop_assert!(joined.more.is_empty() || !has_all, "{:?}", joined.more);
    }
}

#[test]
fn a_turn_of_a_partition_is_bounded() {
    let roots: Vec<Obj> = (0..3).map(|n| config(&format!("root-{n}"))).collect();
    let mut world = World::new(1);
    world.see(&roots.iter().collect::<Vec<_>>());
    for root in &roots {
        let pods: Vec<Obj> =
            (0..2500).map(|n| pod(&format!("{}-{n}", root.facts.name)).owned(root)).collect();
        for pod in &pods {
            let (epoch, events) = (world.epoch, [WatchEvent::Apply(pod.facts.clone())]);
            world.partition("ns").apply_events(&pod.resource, epoch, &events, &mut Effects::default());
        }
    }
    let needs: Vec<Need> = roots.iter().map(|root| Need::Node(root.key())).collect();
    let mut turn = |needs: &[Need]| facts(world.partition("ns"), needs, ViewLimits::default()).1;
    assert_eq!((turn(&needs), turn(&needs[2..])), (2, 1));
}

/// Of an owner, a root, three Pods with a Secret each, and a Service.
#[test]
fn the_worst_come_first_and_bring_what_is_below_them() {
    let (owner, root) = (config("owner"), config("root").owned(&config("owner")));
    let pods = [pod("a").owned(&root).terminating(), pod("b").owned(&root), pod("c").owned(&root)];
    let service = obj("widgets.example.com", "ns", "d").owned(&root);
    let below = pods.each_ref().map(|pod| config(&format!("of-{}", pod.facts.name)).owned(pod));
    let all: Vec<&Obj> = [&owner, &root, &service].into_iter().chain(&pods).chain(&below).collect();
    let whole = Cluster::of(&all).neighbourhood(&root);
    let worst = |standings: [(&str, Standing); 3], most| {
        let known: HashMap<&str, Standing> = standings.into();
        whole.worst(|node| known.get(&*node.name.name).copied().unwrap_or_default(), most)
    };
    let below = |worst: &Neighbourhood| -> Vec<String> {
        let below = worst.edges.iter().filter(|edge| edge.class.is_none());
        below.map(|edge| worst.nodes[edge.dependent].name.name.clone()).collect()
    };
    let standings = [("a", Standing::Terminating), ("b", Standing::NotReady), ("c", Standing::Stuck)];
    let all = worst(standings, 3);
    assert_eq!(below(&all), ["c", "a", "b", "d", "of-c", "of-a", "of-b"]);
    assert_eq!((all.nodes.len(), all.more.len()), (whole.nodes.len(), 0));
    let two = worst(standings, 2);
    assert_eq!(below(&two), ["c", "a", "d", "of-c", "of-a"]);
    assert_eq!((two.more[0].count, &*two.more[0].looked_at[0].name.name), (1, "b"));
    assert_eq!((two.edges[0].owner, two.edges[0].dependent), (1, 0), "the owner stays");
    // Those that are alike stay in order.
    let one = worst(standings.map(|(name, _)| (name, Standing::Other)), 1);
    assert_eq!(below(&one), ["a", "d", "of-a"]);
    let more = &one.more[0];
    assert_eq!((more.owner, &*more.kind, more.count, more.being_deleted), (0, "Pod", 2, 0));
}
