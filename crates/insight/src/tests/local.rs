use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::graph::{SearchQuery, ViewLimits};
use proptest::prelude::*;

proptest! {
    /// Lists and a running collector answer alike.
    #[test]
    fn a_graph_of_lists_shows_what_the_graph_of_a_collector_shows(
        edges in prop::collection::vec((0..8_usize, 0..8_usize, 0..3_u8), 0..20),
        states in prop::collection::vec(0..4_u8, 8),
    ) {
        let mut all: Vec<Obj> = (0..8).map(|number| {
            let name = format!("o{number}");
            match number {
                0 => node(&name),
                1 => obj("things.example.com", "", &name),
                2 | 3 => obj("configmaps", "other", &name),
                4 | 5 => config(&name),
                _ => pod(&name),
            }
        }).collect();
        for (dependent, owner, shape) in edges {
            let owner = all[owner].clone();
            let item = all[dependent].clone();
            all[dependent] = if shape == 0 { item.blocking(&owner) } else { item.owned(&owner) };
        }
        for (obj, state) in all.iter_mut().zip(states) {
            *obj = match state {
                0 => obj.clone().foreground(),
                1 => obj.clone().terminating(),
                _ => obj.clone(),
            };
        }
        let mut world = World::new(2);
        world.see(&all.iter().collect::<Vec<_>>());
        let mut lists = Cluster::of(&all.iter().collect::<Vec<_>>());
        for obj in &all {
            let key = obj.key();
            let of_collector = world.partition_of(obj).view(&key, ViewLimits::default());
            let of_lists = lists.graph.answer(&Need::Node(key.clone()), ViewLimits::default());
            let Some(Fact::Node(_, of_lists)) = of_lists else { panic!("no view") };
            prop_assert_eq!(of_lists, of_collector);
            let of_collector = world.partition_of(obj).inspect_object(&key).map(|object| kube_gc_core::verdict::precheck(&object));
            let Some(Fact::Object(_, of_lists)) = lists.graph.answer(&Need::Object(key), ViewLimits::default()) else {
                panic!("no object")
            };
            prop_assert_eq!(of_lists.map(|object| kube_gc_core::verdict::precheck(&object)), of_collector);
        }
    }
}

#[test]
fn a_list_that_was_not_read_to_its_end_proves_no_existence() {
    let (owner, item) = (config("a"), pod("p").owned(&config("a")));
    let mut graph = LocalGraph::new(catalog(), HashSeed::new(1));
    for (obj, ends) in [(&owner, false), (&item, true)] {
        graph.begin(&obj.resource);
        graph.add(&obj.resource, vec![obj.facts.clone()]);
        if ends {
            graph.end(&obj.resource, None);
        }
    }
    let state = graph.answer(&Need::Owner(owner.identity()), ViewLimits::default());
    assert!(matches!(state, Some(Fact::Owner(_, kube_gc_core::graph::OwnerState::Unknown))), "{state:?}");
}

#[test]
fn a_search_finds_by_kind_and_name() {
    let (a, b) = (config("alpha"), pod("beta"));
    let cluster = Cluster::of(&[&a, &b]);
    let found = |text: &str| -> Vec<String> {
        let query = SearchQuery { text: text.into(), ..SearchQuery::default() };
        let mut names: Vec<_> = cluster
            .graph
            .search(&query)
            .found
            .iter()
            .map(|(identity, _)| identity.name.to_string())
            .collect();
        names.sort();
        names
    };
    assert_eq!(found("LPH"), ["alpha"]);
    assert_eq!(found("pod/b"), ["beta"]);
    assert_eq!(found(""), ["alpha", "beta"]);
    assert_eq!(found("nothing"), [""; 0]);
}
