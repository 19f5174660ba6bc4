//! Facts from partitions, and a graph that is filled from lists.

use std::num::NonZeroU16;
use std::sync::Arc;

use crate::knowledge::{Fact, Knowledge, Need};
use crate::plan::Walk;
use kube_gc_core::graph::{
    DeletesProve, Effects, Epoch, ObjectSnapshot, OwnerState, Partition, SearchQuery, Sharding, ViewLimits,
    WatchEvent,
};
use kube_gc_core::object::{
    Catalog, DeletionState, GroupResource, HashSeed, Identity, Key, Namespace, ObjectFacts, ResourceType,
    ResourceVersion, Uid,
};

/// The dependents and references that are visited before a partition returns to its work: about
/// 2 ms. Only the first fact of a turn may exceed it.
const VISITS_OF_A_TURN: usize = 4_000;
/// The only run of each monitor.
const EPOCH: Epoch = Epoch(1);

/// A fact that a question needs, from the partition that has it. `None` for what takes a request.
fn fact(partition: &mut Partition, need: &Need, limits: ViewLimits) -> Option<Fact> {
    Some(match need {
        Need::Node(key) => Fact::Node(key.clone(), partition.view(key, limits)),
        Need::Object(key) => Fact::Object(key.clone(), partition.inspect_object(key)),
        Need::Owner(identity) => Fact::Owner(identity.clone(), partition.owner_state(identity)),
        Need::Live(_) | Need::Users(_) | Need::Elsewhere(_) => return None,
    })
}

/// The first of the facts that a question needs, as many as fit into one turn of the partition, and
/// how many needs they are for: at least one.
pub fn facts(partition: &mut Partition, needs: &[Need], limits: ViewLimits) -> (Vec<Fact>, usize) {
    let (mut facts, mut visits, mut done) = (Vec::new(), 0, 0);
    for need in needs {
        if visits > VISITS_OF_A_TURN {
            break;
        }
        done += 1;
        let Some(fact) = fact(partition, need, limits) else { continue };
        visits += 1;
        if let Fact::Node(_, Some(view)) = &fact {
            visits += view.by_type.iter().map(|count| count.total).sum::<usize>() + view.references.len();
        }
        facts.push(fact);
    }
    (facts, done)
}

/// The partitions of a collector, without one: filled from lists that a command has read.
#[derive(Debug)]
pub struct LocalGraph {
    sharding: Sharding,
    partitions: Vec<Partition>,
    effects: Effects,
}

impl LocalGraph {
    /// An empty graph. The seed must not be known to who names objects.
    pub fn new(catalog: &Arc<Catalog>, seed: HashSeed) -> Self {
        let sharding = Sharding::new(NonZeroU16::MIN, seed);
        let partitions = sharding.all().map(|id| Partition::new(id, sharding, Arc::clone(catalog)));
        Self { sharding, partitions: partitions.collect(), effects: Effects::default() }
    }

    /// A list of a type begins. Each type is listed once.
    pub fn begin(&mut self, resource: &Arc<ResourceType>) {
        for at in 0..self.partitions.len() {
            self.partitions[at].monitor_started(resource, EPOCH, DeletesProve::Absence);
            self.intake(at, resource, &[WatchEvent::Init { resource_version: None }]);
        }
    }

    /// Takes in some objects of the list.
    pub fn add(&mut self, resource: &Arc<ResourceType>, objects: Vec<ObjectFacts>) {
        let mut events = vec![Vec::new(); self.partitions.len()];
        for facts in objects {
            events[self.place(facts.namespace.as_ref())].push(WatchEvent::Apply(facts));
        }
        for (at, events) in events.into_iter().enumerate() {
            self.intake(at, resource, &events);
        }
    }

    /// The list was read to its end. Without that, its objects are shown, but count as existing
    /// only after a live read.
    pub fn end(&mut self, resource: &Arc<ResourceType>, version: Option<&ResourceVersion>) {
        for at in 0..self.partitions.len() {
            self.intake(at, resource, &[WatchEvent::InitDone { resource_version: version.cloned() }]);
        }
    }

    fn intake(&mut self, at: usize, resource: &ResourceType, events: &[WatchEvent]) {
        self.partitions[at].apply_events(resource, EPOCH, events, &mut self.effects);
        // Nobody works here: the queued keys mean nothing, but partition 0 needs the links.
        let links = std::mem::take(&mut self.effects.links);
        for link in &links {
            self.partitions[0].receive(link, &mut self.effects);
        }
        self.effects.clear();
    }

    fn place(&self, namespace: Option<&Namespace>) -> usize {
        usize::from(self.sharding.of(namespace).0)
    }

    /// Learns the facts that a question needs. Returns the needs that take a request.
    pub fn learn(
        &mut self,
        needs: impl IntoIterator<Item = Need>,
        limits: ViewLimits,
        knowledge: &mut Knowledge,
    ) -> Vec<Need> {
        let mut requests = Vec::new();
        for need in needs {
            let at = self.place(need.namespace());
            match fact(&mut self.partitions[at], &need, limits) {
                Some(fact) => knowledge.learn(fact),
                None => requests.push(need),
            }
        }
        requests
    }

    /// Walks on to all that a deletion may concern.
    pub fn walk(&self, walk: &mut Walk) {
        loop {
            let needs = walk.needs();
            if needs.is_empty() {
                walk.finish();
                return;
            }
            for need in needs {
                let place = need.place(self.sharding);
                for id in self.sharding.all().filter(|id| place.is_none_or(|place| place == *id)) {
                    walk.learn(&need, self.partitions[usize::from(id.0)].members(&need, None, usize::MAX));
                }
            }
        }
    }

    /// All observed objects that a search finds.
    pub fn search(&self, query: &SearchQuery) -> Vec<(Identity, DeletionState)> {
        self.partitions.iter().flat_map(|one| one.found_by(query)).collect()
    }

    /// An observed object, as a worker would see it.
    pub fn object(&mut self, key: &Key) -> Option<ObjectSnapshot> {
        let at = self.place(key.namespace.as_ref());
        self.partitions[at].inspect_object(key)
    }

    /// What is known of an owner.
    pub fn owner_state(&self, identity: &Identity) -> OwnerState {
        self.partitions[self.place(identity.namespace.as_ref())].owner_state(identity)
    }

    /// The first observed objects with this uid, which are several only if the server shows an
    /// object under two names, or has given out a uid twice.
    pub fn holders(&self, uid: &Uid, most: usize) -> Vec<Identity> {
        self.partitions.iter().flat_map(|partition| partition.all_observed(uid, most)).take(most).collect()
    }

    /// The number of objects of a type.
    pub fn population(&self, resource: &GroupResource) -> usize {
        self.partitions.iter().map(|partition| partition.population(resource)).sum()
    }
}
