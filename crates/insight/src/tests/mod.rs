//! Questions on graphs that are filled by hand, and on random ones.

mod checks;
mod explanations;
mod holders;
mod neighbourhoods;
mod plans;
mod plans_begun;
mod plans_contents;
mod plans_left;
mod sentences;
mod stuck;

use std::collections::HashMap;

use proptest::prelude::*;

use kube_gc_core::graph::testing::world::*;
use kube_gc_core::graph::{OwnerState, SearchQuery, ViewLimits};
use kube_gc_core::object::{HashSeed, Identity, PropagationPolicy, ResourceVersion};

use super::*;
use kube_gc_core::verdict::precheck;

/// A cluster: what lists show, and what a live read shows.
pub struct Cluster {
    graph: LocalGraph,
    live: HashMap<Identity, Live>,
    /// What lists cannot show.
    pub outside: Outside,
    /// What the questions needed.
    pub needed: Vec<Need>,
}

/// The types that are listed.
const LISTED: [&str; 8] = [
    "configmaps",
    "customresourcedefinitions.apiextensions.k8s.io",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "pods",
    "things.example.com",
    "widgets.example.com",
];

impl Cluster {
    /// Every object is in a list and can be read.
    pub fn of(objects: &[&Obj]) -> Self {
        let mut graph = LocalGraph::new(catalog(), HashSeed::new(1));
        for name in LISTED {
            let resource = resource(name);
            graph.begin(&resource);
            let of_type = objects.iter().filter(|obj| obj.resource == resource);
            graph.add(&resource, of_type.map(|obj| obj.facts.clone()).collect());
            graph.end(&resource, Some(&ResourceVersion::number(100)));
        }
        let found = |obj: &&Obj| {
            let live = LiveObject { facts: obj.facts.clone(), details: Details::default() };
            (obj.identity(), Live::Found(Box::new(live)))
        };
        let live = objects.iter().map(found).collect();
        Self { graph, live, outside: Outside::default(), needed: Vec::new() }
    }

    /// An object that only a live read shows, with these finalizers.
    pub fn read(mut self, obj: &Obj, finalizers: &[&str]) -> Self {
        let details = Details {
            read: Some("2026-01-01T00:01:00Z".to_owned()),
            deleted: obj.facts.being_deleted.then(|| "2026-01-01T00:00:00Z".to_owned()),
            finalizers: finalizers.iter().map(|&name| name.to_owned()).collect(),
            ..Details::default()
        };
        let live = LiveObject { facts: obj.facts.clone(), details };
        self.live.insert(obj.identity(), Live::Found(Box::new(live)));
        self
    }

    /// Objects that only live reads show.
    pub fn known(mut self, objects: &[&Obj]) -> Self {
        for obj in objects {
            let live = LiveObject { facts: obj.facts.clone(), details: Details::default() };
            self.live.insert(obj.identity(), Live::Found(Box::new(live)));
        }
        self
    }

    /// An object that a live read shows so, a minute after it was deleted.
    pub fn with(self, obj: &Obj, change: impl FnOnce(&mut Details)) -> Self {
        let mut cluster = self.read(obj, &[]);
        if let Some(Live::Found(live)) = cluster.live.get_mut(&obj.identity()) {
            change(&mut live.details);
        }
        cluster
    }

    /// What a live read of an object shows.
    pub fn reading(mut self, obj: &Obj, live: Live) -> Self {
        self.live.insert(obj.identity(), live);
        self
    }

    pub fn ask<A>(&mut self, question: impl Fn(&mut Asker<'_>) -> A) -> A {
        self.ask_with(200, question)
    }

    pub fn ask_with<A>(&mut self, reads: usize, question: impl Fn(&mut Asker<'_>) -> A) -> A {
        let mut knowledge = Knowledge::new(self.outside.clone());
        loop {
            let needs = match ask(&knowledge, catalog(), reads, &question) {
                Ok(answer) => return answer,
                Err(needs) => needs,
            };
            assert!(!needs.is_empty());
            self.needed.extend(needs.iter().cloned());
            for need in self.graph.learn(needs, ViewLimits::default(), &mut knowledge) {
                knowledge.learn(match need {
                    Need::Users(claim) => Fact::Users(claim, Ok(vec![(&pod("user").identity()).into()])),
                    Need::Elsewhere(owner) => {
                        let found = self.graph.holders(&owner.uid, 1).pop().map(|found| (&found).into());
                        Fact::Elsewhere(owner, found)
                    }
                    Need::Live(identity) => {
                        let live = self.live.get(&identity).cloned().unwrap_or_else(|| {
                            let uid = |uid| Identity { uid, ..identity.clone() };
                            let mut named =
                                self.live.keys().filter(|other| **other == uid(other.uid.clone()));
                            Live::Absent(named.next().map_or(AbsenceEvidence::NotFound, |other| {
                                AbsenceEvidence::OtherUid(other.uid.clone())
                            }))
                        });
                        Fact::Live(identity, live)
                    }
                    Need::Node(_) | Need::Object(_) | Need::Owner(_) => unreachable!("the graph has it"),
                });
            }
        }
    }

    pub fn explain(&mut self, obj: &Obj) -> Explanation {
        let identity = obj.identity();
        self.ask(|asker| explain(asker, &identity))
    }

    /// The plan of a deletion.
    pub fn plan(&mut self, root: &Obj, policy: PropagationPolicy) -> Plan {
        let (roots, others) = (vec![root.identity()], Vec::new());
        let query = PlanQuery { roots, policy, others, limit: 1000 };
        self.plan_of(query, 1000)
    }

    /// The same of several objects, or of not so many.
    pub fn plan_of(&mut self, query: PlanQuery, listed: usize) -> Plan {
        let mut walk = Walk::new(query);
        loop {
            self.graph.walk(&mut walk);
            let plan = self.ask(|asker| plan(asker, &walk, listed));
            if !walk.follow(&plan) {
                return plan;
            }
        }
    }

    pub fn neighbourhood(&mut self, obj: &Obj) -> Neighbourhood {
        let query = NeighbourhoodQuery { root: obj.identity(), up: 8, down: 8, limit: 200 };
        self.ask(|asker| neighbourhood(asker, &query))
    }
}

proptest! {
    /// Lists and a running collector answer alike.
    #[test]
    fn a_graph_of_lists_shows_what_the_graph_of_a_collector_shows(
        edges in prop::collection::vec((0..8_usize, 0..8_usize, 0..3_u8), 0..20),
        states in prop::collection::vec(0..4_u8, 8),
    ) {
        let mut all = vec![node("o0"), obj("things.example.com", "", "o1")];
        all.extend(["o2", "o3"].map(|name| obj("configmaps", "other", name)));
        all.extend(["o4", "o5"].map(config));
        all.extend(["o6", "o7"].map(pod));
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
            prop_assert_eq!(lists.ask(|asker| asker.node(&key).flatten().cloned()), of_collector);
            let of_collector = world.partition_of(obj).inspect_object(&key).map(|object| precheck(&object));
            prop_assert_eq!(lists.ask(|asker| asker.object(&key).flatten().map(precheck)), of_collector);
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
    assert_eq!(graph.owner_state(&owner.identity()), OwnerState::Unknown);
}

#[test]
fn a_search_finds_by_kind_and_name() {
    let cluster = Cluster::of(&[&config("alpha"), &pod("beta")]);
    for (text, expected) in
        [("LPH", &["alpha"][..]), ("pod/b", &["beta"]), ("", &["alpha", "beta"]), ("nothing", &[])]
    {
        let found = cluster.graph.search(&SearchQuery { text: text.into(), ..SearchQuery::default() });
        let mut names: Vec<_> = found.iter().map(|(identity, _)| &*identity.name).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{text}");
    }
}
