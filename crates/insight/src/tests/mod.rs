//! Questions on graphs that are filled by hand, and on random ones.

mod check_oracle;
mod checks;
mod explanations;
mod local;
mod neighbourhoods;
mod pages;
mod plan_model;
mod plans;
mod stuck;
mod worst;

use std::collections::HashMap;

use kube_gc_core::graph::ViewLimits;
use kube_gc_core::graph::testing::world::{Obj, catalog};
use kube_gc_core::object::{HashSeed, Identity, PropagationPolicy, ResourceVersion};

use super::*;

/// A cluster: what lists show, and what a live read shows.
pub struct Cluster {
    graph: LocalGraph,
    live: HashMap<Identity, Live>,
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
            let resource = kube_gc_core::graph::testing::world::resource(name);
            graph.begin(&resource);
            let of_type = objects.iter().filter(|obj| obj.resource == resource);
            graph.add(&resource, of_type.map(|obj| obj.facts.clone()).collect());
            graph.end(&resource, Some(&ResourceVersion::number(100)));
        }
        let found = |obj: &&Obj| {
            let live = LiveObject { facts: obj.facts.clone(), details: Details::default() };
            (obj.identity(), Live::Found(Box::new(live)))
        };
        Self { graph, live: objects.iter().map(found).collect(), needed: Vec::new() }
    }

    /// An object that only a live read shows, with these finalizers.
    pub fn read(mut self, obj: &Obj, finalizers: &[&str]) -> Self {
        let details = Details {
            deleted: obj.facts.being_deleted.then(|| "2026-01-01T00:00:00Z".to_owned()),
            finalizers: finalizers.iter().map(|&name| name.to_owned()).collect(),
            ..Details::default()
        };
        let live = LiveObject { facts: obj.facts.clone(), details };
        self.live.insert(obj.identity(), Live::Found(Box::new(live)));
        self
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
        let mut knowledge = Knowledge::default();
        loop {
            let needs = match ask(&knowledge, catalog(), reads, &question) {
                Ok(answer) => return answer,
                Err(needs) => needs,
            };
            assert!(!needs.is_empty());
            self.needed.extend(needs.iter().cloned());
            for identity in self.graph.learn(needs, ViewLimits::default(), &mut knowledge) {
                let live = self.live.get(&identity).cloned();
                let live = live.unwrap_or(Live::Absent(AbsenceEvidence::NotFound));
                knowledge.learn(Fact::Live(identity, live));
            }
        }
    }

    pub fn explain(&mut self, obj: &Obj) -> Explanation {
        let identity = obj.identity();
        self.ask(|asker| explain(asker, &identity))
    }

    /// Walks to the end.
    pub fn walk(&self, query: PlanQuery) -> Walk {
        self.graph.walk(query)
    }

    /// The plan of a deletion.
    pub fn plan(&mut self, root: &Obj, policy: PropagationPolicy) -> Plan {
        let query = PlanQuery { root: root.identity(), policy, limit: 1000 };
        let walk = self.walk(query);
        self.ask(|asker| plan(asker, &walk, 1000))
    }

    pub fn neighbourhood(&mut self, obj: &Obj) -> Neighbourhood {
        let query = NeighbourhoodQuery { root: obj.identity(), up: 8, down: 8, limit: 200 };
        self.ask(|asker| neighbourhood(asker, &query))
    }
}
