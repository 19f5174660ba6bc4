//! Routes each question to its partition of the graph.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use actix::{Addr, MailboxError};
use futures::future::try_join_all;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::actors::graph::{GraphActor, PartitionStatus, Question, TakeInChanges, answer};
use kube_gc_client::WallClock;
use kube_gc_core::graph::{
    Below, Cursor, Effects, ExpectedChange, Finding, Generation, MemberMark, MemberPage, MembersOf,
    OwnerState, Partition, PartitionId, Ranked, SearchQuery, Sharding, Snapshot, StuckCause, StuckFilter,
    StuckObjects, Verification, ViewLimits,
};
use kube_gc_core::object::{Catalog, GroupResource, Identity, Key, Namespace, ObjectFacts, Uid};
use kube_gc_insight::{Fact, Need, facts};

/// The number of keys in one question, so that a partition soon returns to its work.
const KEYS_PER_QUESTION: usize = 512;

/// The addresses of all partitions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GraphHandle {
    sharding: Sharding,
    partitions: Arc<[Addr<GraphActor>]>,
    /// The disturbance under which the reports through this handle were found.
    under: Option<u64>,
    /// The origin of the partitions' clock.
    began: WallClock,
}

/// A partition did not answer: it has ended, and the process is ending.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the graph partition has ended")]
pub struct PartitionEnded;

impl From<MailboxError> for PartitionEnded {
    fn from(_: MailboxError) -> Self {
        Self
    }
}

type Answer<T> = Result<T, PartitionEnded>;

impl GraphHandle {
    /// A handle for partitions in the order of their ids. Tells each of them where partition 0 is.
    pub fn new(sharding: Sharding, partitions: Vec<Addr<GraphActor>>) -> Self {
        debug_assert_eq!(partitions.len(), usize::from(sharding.count()));
        if let Some(cluster) = partitions.first() {
            for partition in &partitions {
                let cluster = cluster.clone();
                partition.do_send(Question::new(|actor| actor.meet(cluster)));
            }
        }
        let began = WallClock::Since(SystemTime::now(), Instant::now());
        Self { sharding, partitions: partitions.into(), under: None, began }
    }

    /// A handle for work that began under this disturbance. Its reports are void after another
    /// disturbance.
    pub fn under(&self, disturbance: u64) -> Self {
        Self { under: Some(disturbance), ..self.clone() }
    }

    /// Which partition holds a namespace's objects.
    pub fn partition_of(&self, namespace: Option<&Namespace>) -> PartitionId {
        self.sharding.of(namespace)
    }

    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.sharding.all()
    }

    fn address(&self, PartitionId(partition): PartitionId) -> Answer<&Addr<GraphActor>> {
        self.partitions.get(usize::from(partition)).ok_or(PartitionEnded)
    }

    /// Gives the actor of one partition something to do, with the way back of its answer. It does
    /// that even if nobody waits for the answer any longer.
    async fn tell<A: Send + 'static>(
        &self,
        partition: PartitionId,
        order: impl FnOnce(&mut GraphActor, oneshot::Sender<A>) + Send + 'static,
    ) -> Answer<A> {
        let (to, answered) = oneshot::channel();
        self.address(partition)?.do_send(Question::new(|actor| order(actor, to)));
        answered.await.map_err(|_| PartitionEnded)
    }

    /// Asks one partition. The effects of the answer are carried out before it comes.
    pub async fn ask<A: Send + 'static>(
        &self,
        partition: PartitionId,
        question: impl FnOnce(&mut Partition, &mut Effects) -> A + Send + 'static,
    ) -> Answer<A> {
        let ask = move |actor: &mut GraphActor, to: oneshot::Sender<A>| {
            let (partition, effects) = actor.partition();
            let found = question(partition, effects);
            // Whoever has the answer relies on its effects: the caches have them, the pools have
            // the keys.
            actor.forward();
            answer(to, found);
        };
        self.tell(partition, ask).await
    }

    /// Asks about a key where it is.
    pub async fn ask_about<A: Send + 'static>(
        &self,
        key: &Key,
        question: impl FnOnce(&mut Partition, &Key, &mut Effects) -> A + Send + 'static,
    ) -> Answer<A> {
        let asked = key.clone();
        let question = move |graph: &mut Partition, effects: &mut Effects| question(graph, &asked, effects);
        self.ask(self.sharding.of(key.namespace.as_ref()), question).await
    }

    pub async fn ask_all<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Partition, &mut Effects) -> A + Clone + Send + 'static,
    ) -> Answer<Vec<A>> {
        try_join_all(self.partitions().map(|partition| self.ask(partition, question.clone()))).await
    }

    /// Asks about each of these keys where it is. The answers are in the order of the keys.
    async fn ask_each<A: Send + 'static>(
        &self,
        keys: &[Key],
        question: impl Fn(&Partition, &Key) -> A + Clone + Send + 'static,
    ) -> Answer<Vec<A>> {
        let mut places: BTreeMap<PartitionId, Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            places.entry(self.sharding.of(key.namespace.as_ref())).or_default().push(place);
        }
        let mut all: Vec<Option<A>> = keys.iter().map(|_| None).collect();
        for (partition, places) in places {
            for places in places.chunks(KEYS_PER_QUESTION) {
                let asked: Vec<_> = places.iter().map(|&place| keys[place].clone()).collect();
                let question = question.clone();
                let ask = move |partition: &mut Partition, _: &mut Effects| {
                    asked.iter().map(|key| question(partition, key)).collect::<Vec<_>>()
                };
                for (&place, answer) in places.iter().zip(self.ask(partition, ask).await?) {
                    all[place] = Some(answer);
                }
            }
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// Puts a monitor's changes into one partition.
    pub async fn take_in(&self, partition: PartitionId, changes: TakeInChanges) -> Answer<()> {
        self.tell(partition, |actor, done| actor.take_in(changes, done)).await
    }

    /// The state of a key, as a worker needs it.
    pub async fn look(&self, key: &Key) -> Answer<Snapshot> {
        self.ask_about(key, Partition::snapshot_and_queue).await
    }

    /// What is known about an identity as an owner.
    pub async fn owner_state(&self, identity: &Identity) -> Answer<OwnerState> {
        let asked = identity.clone();
        self.ask(self.sharding.of(identity.namespace.as_ref()), move |graph, _| graph.owner_state(&asked))
            .await
    }

    /// Reports what a look-up found of a node that was in this generation when it began.
    pub async fn verified(
        &self,
        identity: &Identity,
        generation: Generation,
        finding: Finding,
    ) -> Answer<Verification> {
        let (under, asked) = (self.under, identity.clone());
        let report = move |graph: &mut Partition, effects: &mut Effects| {
            if under.is_some_and(|number| number < graph.disturbance()) {
                graph.requeue(&asked.key(), effects);
                return Verification::Stale;
            }
            graph.verified(&asked, finding, generation, effects)
        };
        self.ask(self.sharding.of(identity.namespace.as_ref()), report).await
    }

    /// All observed objects with this uid, in any namespace.
    pub async fn locate(&self, uid: &Uid) -> Answer<Vec<Identity>> {
        let uid = uid.clone();
        let found = self.ask_all(move |graph, _| graph.observed(&uid)).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The owners with this uid that only references name, in any namespace.
    pub async fn only_named(&self, uid: &Uid) -> Answer<Vec<Identity>> {
        let uid = uid.clone();
        let found = self.ask_all(move |graph, _| graph.only_named(&uid)).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// An owner and all that is below it. Partition 0, which is asked first, names dependents in others.
    pub async fn below(&self, owner: &Uid) -> Answer<Below> {
        let mut all = Below::default();
        for partition in self.partitions() {
            let is_there = |key: &&Key| self.partition_of(key.namespace.as_ref()) == partition;
            let linked: Vec<Key> = all.keys.iter().map(|(key, _)| key).filter(is_there).cloned().collect();
            let owner = owner.clone();
            all.extend(self.ask(partition, move |graph, _| graph.below(&owner, &linked)).await?);
        }
        Ok(all)
    }

    /// The identities of these keys, in their order, for display. For an unverified owner, it is a
    /// guess.
    pub async fn identify_all(&self, keys: &[Key]) -> Answer<Vec<Option<Identity>>> {
        self.ask_each(keys, Partition::identify).await
    }

    /// The state of these objects, in their order; `None` for objects that no monitor shows.
    /// Queues nothing.
    pub async fn show(&self, keys: &[Key]) -> Answer<Vec<Option<ObjectFacts>>> {
        self.ask_each(keys, Partition::observed_object).await
    }

    /// Those of these keys that may have waited for owners of a type.
    pub async fn concerned(&self, keys: Vec<Key>, by: &Arc<BTreeSet<GroupResource>>) -> Answer<HashSet<Key>> {
        let by = Arc::clone(by);
        let concerned = self.ask_each(&keys, move |graph, key| graph.is_concerned(key, &by)).await?;
        Ok(keys.into_iter().zip(concerned).filter(|(_, is)| *is).map(|(key, _)| key).collect())
    }

    /// Notes that a write succeeded, so an event of this object must follow. Does not wait: the
    /// partition handles every later question about the object after this.
    pub fn expect(&self, key: &Key, change: ExpectedChange) {
        let (under, asked) = (self.under, key.clone());
        let expect = move |actor: &mut GraphActor| {
            let (partition, _) = actor.partition();
            // The store may have lost what was written before.
            if under.is_none_or(|number| number >= partition.disturbance()) {
                partition.expect_event(&asked, &change);
            }
        };
        if let Ok(address) = self.address(self.sharding.of(key.namespace.as_ref())) {
            address.do_send(Question::new(expect));
        }
    }

    /// Resolves when all links between partitions that were queued before are applied.
    pub async fn fence(&self) -> Answer<()> {
        let fence = |partition| self.tell(partition, |actor, done| actor.when_delivered(done));
        try_join_all(self.partitions().map(fence)).await.map(drop)
    }

    /// The status of every partition, in order.
    pub async fn status(&self) -> Answer<Vec<PartitionStatus>> {
        let status = |partition| self.tell(partition, |actor, to| answer(to, actor.status()));
        try_join_all(self.partitions().map(status)).await
    }

    /// How many objects of a type there are.
    pub async fn population(&self, resource: &GroupResource) -> Answer<usize> {
        let resource = resource.clone();
        Ok(self.ask_all(move |graph, _| graph.population(&resource)).await?.into_iter().sum())
    }

    /// The stuck objects that are in no queue, by partition.
    pub async fn waiting(&self, filter: StuckFilter, only: Option<StuckCause>) -> Answer<Vec<StuckObjects>> {
        let now = self.began.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.ask_all(move |graph, _| graph.stuck_objects(now, &filter, only)).await
    }

    /// Facts that a question needs. Live reads are left out.
    pub async fn facts(&self, needs: &[Need], limits: ViewLimits) -> Answer<Vec<Fact>> {
        let mut all = Vec::new();
        for partition in self.partitions() {
            let here = |need: &&Need| self.sharding.of(need.namespace()) == partition;
            let mut here: Vec<Need> = needs.iter().filter(here).cloned().collect();
            while !here.is_empty() {
                let answer = self.ask(partition, move |partition, _| {
                    let (found, done) = facts(partition, &here, limits);
                    (found, here.split_off(done))
                });
                let (found, rest) = answer.await?;
                all.extend(found);
                here = rest;
            }
        }
        Ok(all)
    }

    /// The `most` best of a page of searches in one partition, and where to go on.
    pub async fn search(
        &self,
        of: PartitionId,
        queries: &Arc<[SearchQuery]>,
        after: Option<Cursor>,
        slots: usize,
        most: usize,
    ) -> Answer<(Vec<Ranked>, Option<Cursor>)> {
        let queries = Arc::clone(queries);
        self.ask(of, move |partition, _| partition.page_of_search(&queries, after, slots, most)).await
    }

    /// Pages of these objects in one partition: one for each question, up to the one that brings
    /// it to this many visits.
    pub async fn members(
        &self,
        partition: PartitionId,
        of: Vec<(MembersOf, Option<MemberMark>)>,
        visits: usize,
    ) -> Answer<Vec<MemberPage>> {
        let pages = move |partition: &mut Partition, _: &mut Effects| {
            let mut left = visits;
            let pages = of.iter().map_while(|(of, after)| {
                let page = (left > 0).then(|| partition.members(of, *after, left))?;
                left = left.saturating_sub(page.visits.max(1));
                Some(page)
            });
            pages.collect()
        };
        self.ask(partition, pages).await
    }

    /// The partitions that may have these objects.
    pub fn partitions_with(&self, of: &MembersOf) -> Vec<PartitionId> {
        of.place(self.sharding).map_or_else(|| self.partitions().collect(), |place| vec![place])
    }

    /// The types that the API server serves.
    pub async fn catalog(&self) -> Answer<Arc<Catalog>> {
        self.ask(Sharding::CLUSTER, |partition, _| Arc::clone(partition.catalog())).await
    }
}
