//! A graph in this process, filled from lists.

use std::num::NonZeroU16;
use std::sync::Arc;

use kube_gc_core::graph::{
    DeletesProve, Effects, Epoch, Follower, Intake, MemberPage, MembersOf, ObjectSnapshot, OwnerState,
    Partition, SearchPage, SearchQuery, Sharding, ViewLimits, WatchEvent,
};
use kube_gc_core::object::{
    Catalog, GroupResource, HashSeed, Identity, Key, Namespace, ObjectFacts, ResourceType, ResourceVersion,
    Uid,
};

use super::knowledge::{Fact, Knowledge, Need};
use super::plan::{PlanQuery, Walk};

/// A fact that a question needs, from the partition that has it. `None` for a live read, which is
/// no partition's business.
pub fn fact(partition: &mut Partition, need: &Need, limits: ViewLimits) -> Option<Fact> {
    Some(match need {
        Need::Node(key) => Fact::Node(key.clone(), partition.view(key, limits)),
        Need::Object(key) => Fact::Object(key.clone(), partition.inspect_object(key)),
        Need::Owner(identity) => Fact::Owner(identity.clone(), partition.owner_state(identity)),
        Need::Live(_) => return None,
    })
}

/// The first of the facts that a question needs, as many as fit into one turn of the partition, and
/// how many needs they are for: at least one. `follower` is woken when one of them may have changed.
pub fn facts(
    partition: &mut Partition,
    needs: &[Need],
    limits: ViewLimits,
    follower: Option<&Follower>,
) -> (Vec<Fact>, usize) {
    let (mut facts, mut visits, mut done) = (Vec::new(), 0, 0);
    for need in needs {
        if visits > VISITS_OF_A_TURN {
            break;
        }
        done += 1;
        let Some(fact) = fact(partition, need, limits) else { continue };
        if let Some(follower) = follower {
            follow(partition, follower, &fact);
        }
        visits += match &fact {
            Fact::Node(_, Some(view)) => {
                view.by_type.iter().map(|count| count.total).sum::<usize>() + view.references.len()
            }
            Fact::Node(_, None) | Fact::Object(..) | Fact::Owner(..) | Fact::Live(..) => 0,
        } + 1;
        facts.push(fact);
    }
    (facts, done)
}

/// Follows what a fact is about. What a fact says of a reference also depends on its owner.
fn follow(partition: &mut Partition, follower: &Follower, fact: &Fact) {
    let (uid, references) = match fact {
        Fact::Node(key, view) => (&key.uid, view.as_ref().map(|view| view.references.as_slice())),
        Fact::Object(key, object) => (&key.uid, object.as_ref().map(|object| object.references.as_slice())),
        Fact::Owner(identity, _) => (&identity.uid, None),
        Fact::Live(..) => return,
    };
    partition.follow(follower, uid);
    for seen in references.unwrap_or_default() {
        partition.follow(follower, &seen.reference.uid);
    }
}

/// The dependents and references that are visited before a partition returns to its work: about
/// 2 ms. Only the first fact of a turn may exceed it.
const VISITS_OF_A_TURN: usize = 4_000;
/// How many objects are found before they are visited.
const PAGE: usize = 1024;
/// The only run of each monitor.
const EPOCH: Epoch = Epoch(1);

/// The partitions of a collector, without one: filled from lists that a command has read.
#[derive(Debug)]
pub struct LocalGraph {
    sharding: Sharding,
    partitions: Vec<Partition>,
    effects: Effects,
}

impl LocalGraph {
    /// An empty graph. The seed must not be known to who names objects.
    #[must_use]
    pub fn new(catalog: &Arc<Catalog>, seed: HashSeed) -> Self {
        let sharding = Sharding::new(NonZeroU16::MIN, seed);
        let partitions = sharding.all().map(|id| Partition::new(id, sharding, Arc::clone(catalog)));
        Self { sharding, partitions: partitions.collect(), effects: Effects::default() }
    }

    /// A list of a type begins. Each type is listed once.
    pub fn begin(&mut self, resource: &Arc<ResourceType>) {
        for at in 0..self.partitions.len() {
            let started = Intake::MonitorStarted {
                resource: Arc::clone(resource),
                epoch: EPOCH,
                deletes_prove: DeletesProve::Absence,
            };
            self.partitions[at].intake(started, &mut self.effects);
            self.intake(at, resource, vec![WatchEvent::Init { resource_version: None }]);
        }
    }

    /// Takes in some objects of the list.
    pub fn add(&mut self, resource: &Arc<ResourceType>, objects: Vec<ObjectFacts>) {
        let mut events = vec![Vec::new(); self.partitions.len()];
        for facts in objects {
            let at = usize::from(self.sharding.of(facts.namespace.as_ref()).0);
            events[at].push(WatchEvent::Apply(facts));
        }
        for (at, events) in events.into_iter().enumerate() {
            self.intake(at, resource, events);
        }
    }

    /// The list was read to its end. Without that, its objects are shown, but count as existing
    /// only after a live read.
    pub fn end(&mut self, resource: &Arc<ResourceType>, version: Option<&ResourceVersion>) {
        for at in 0..self.partitions.len() {
            self.intake(at, resource, vec![WatchEvent::InitDone { resource_version: version.cloned() }]);
        }
    }

    /// A fact that a question needs, unless it is that of a live read.
    pub fn answer(&mut self, need: &Need, limits: ViewLimits) -> Option<Fact> {
        let at = usize::from(self.sharding.of(need.namespace()).0);
        fact(&mut self.partitions[at], need, limits)
    }

    /// Learns the facts that a question needs. Returns the objects that only a live read shows.
    pub fn learn(
        &mut self,
        needs: impl IntoIterator<Item = Need>,
        limits: ViewLimits,
        knowledge: &mut Knowledge,
    ) -> Vec<Identity> {
        let mut reads = Vec::new();
        for need in needs {
            match (self.answer(&need, limits), need) {
                (Some(fact), _) => knowledge.learn(fact),
                (None, Need::Live(identity)) => reads.push(identity),
                (None, Need::Node(_) | Need::Object(_) | Need::Owner(_)) => {}
            }
        }
        reads
    }

    /// Walks from an object to all that its deletion may concern.
    #[must_use]
    pub fn walk(&self, query: PlanQuery) -> Walk {
        let mut walk = Walk::new(query);
        loop {
            let needs = walk.needs();
            if needs.is_empty() {
                break;
            }
            for need in needs {
                walk.learn(&need, self.members(&need));
            }
        }
        walk.finish();
        walk
    }

    /// These objects in full.
    #[must_use]
    pub fn members(&self, of: &MembersOf) -> MemberPage {
        let mut all = MemberPage::default();
        let place = of.place(self.sharding);
        let here = self.sharding.all().filter(|id| place.is_none_or(|place| place == *id));
        for id in here {
            let mut after = None;
            loop {
                let page = self.partitions[usize::from(id.0)].members(of, after, usize::MAX);
                all.members.extend(page.members);
                all.elsewhere.extend(page.elsewhere);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        all
    }

    /// All observed objects that a search finds.
    #[must_use]
    pub fn search(&self, query: &SearchQuery) -> SearchPage {
        let mut all = SearchPage::default();
        for partition in &self.partitions {
            all.found.extend(partition.page_of_search(query, None, usize::MAX).found);
        }
        all
    }

    /// An object with this uid.
    #[must_use]
    pub fn observed(&self, uid: &Uid) -> Option<Identity> {
        self.partitions.iter().find_map(|partition| partition.observed(uid))
    }

    /// Visits all observed objects, in no particular order.
    pub fn each_object(&mut self, mut visit: impl FnMut(&Self, &ObjectSnapshot)) {
        for at in 0..self.partitions.len() {
            let mut after = None;
            loop {
                let page = self.partitions[at].page_of_search(&SearchQuery::default(), after, PAGE);
                for (identity, _) in page.found {
                    if let Some(object) = self.partitions[at].inspect_object(&identity.key()) {
                        visit(self, &object);
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
    }

    /// An observed object, as a worker would see it.
    pub fn object(&mut self, key: &Key) -> Option<ObjectSnapshot> {
        let at = self.partition(key.namespace.as_ref());
        self.partitions[at].inspect_object(key)
    }

    /// What is known of an owner.
    #[must_use]
    pub fn owner_state(&self, identity: &Identity) -> OwnerState {
        self.partitions[self.partition(identity.namespace.as_ref())].owner_state(identity)
    }

    /// The first observed objects with this uid, which are several only if the server shows an
    /// object under two names, or has given out a uid twice.
    #[must_use]
    pub fn holders(&self, uid: &Uid, most: usize) -> Vec<Identity> {
        self.partitions.iter().flat_map(|partition| partition.all_observed(uid, most)).take(most).collect()
    }

    /// Whether several observed objects have this uid.
    #[must_use]
    pub fn has_several(&self, uid: &Uid) -> bool {
        self.partitions.iter().map(|partition| partition.count_observed(uid)).sum::<usize>() > 1
    }

    fn partition(&self, namespace: Option<&Namespace>) -> usize {
        usize::from(self.sharding.of(namespace).0)
    }

    /// The number of objects of a type.
    #[must_use]
    pub fn population(&self, resource: &GroupResource) -> usize {
        self.partitions.iter().map(|partition| partition.population(resource)).sum()
    }

    fn intake(&mut self, at: usize, resource: &Arc<ResourceType>, events: Vec<WatchEvent>) {
        let events = Intake::Events { resource: Arc::clone(resource), epoch: EPOCH, events };
        self.partitions[at].intake(events, &mut self.effects);
        // Nobody works here: the queued keys mean nothing, but the partitions need each other's
        // messages.
        let peers = std::mem::take(&mut self.effects.peers);
        self.effects.clear();
        for (to, message) in peers {
            self.partitions[usize::from(to.0)].receive(message, &mut self.effects);
        }
        self.effects.clear();
    }
}
