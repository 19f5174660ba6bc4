//! Pages of neighbourhoods.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::graph::{Effects, Intake, WatchEvent};

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

#[test]
fn pages_go_on_where_the_last_one_ended() {
    let top = config("top");
    let root = config("root").owned(&top);
    let all: Vec<Obj> = (0..10).map(|number| pod(&format!("p{number}")).owned(&root)).collect();
    let mut cluster = Cluster::of(&[&top, &root].into_iter().chain(&all).collect::<Vec<_>>());
    let pages = pages(&mut cluster, &root, 5);
    let shown: Vec<Vec<String>> =
        pages.iter().map(|page| page.nodes.iter().map(|node| node.name.to_string()).collect()).collect();
    let root = "ConfigMap/root";
    assert_eq!(
        shown,
        [
            vec![root, "ConfigMap/top", "Pod/p0", "Pod/p1", "Pod/p2"],
            vec![root, "Pod/p3", "Pod/p4", "Pod/p5", "Pod/p6"],
            vec![root, "Pod/p7", "Pod/p8", "Pod/p9"],
        ]
    );
    let left: Vec<Vec<usize>> =
        pages.iter().map(|page| page.more.iter().map(|more| more.count).collect()).collect();
    assert_eq!(left, [vec![7], vec![3], vec![]]);
}

#[test]
fn an_object_with_more_owners_than_fit_is_shown() {
    let root = config("root");
    let owners: Vec<Obj> = (0..6).map(|number| config(&format!("c{number}")).owned(&root)).collect();
    let below = owners.iter().fold(pod("p"), |pod, owner| pod.owned(owner));
    let mut cluster = Cluster::of(&[&root, &below].into_iter().chain(&owners).collect::<Vec<_>>());
    let pages = pages(&mut cluster, &root, 3);
    let last = pages.last().unwrap();
    assert!(names(last).contains("Pod/p") && last.nodes.len() == 3 && last.truncated, "{last:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

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
            let (resource, events) = (pod.resource.clone(), vec![WatchEvent::Apply(pod.facts.clone())]);
            let intake = Intake::Events { resource, epoch: world.epoch, events };
            world.partition("ns").intake(intake, &mut Effects::default());
        }
    }
    let needs: Vec<Need> = roots.iter().map(|root| Need::Node(root.key())).collect();
    let mut turn = |needs: &[Need]| facts(world.partition("ns"), needs, ViewLimits::default()).1;
    assert_eq!((turn(&needs), turn(&needs[2..])), (2, 1));
}
