//! Routes each message to its partition of the graph.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::{Handler, MailboxError, Message};
use futures::future::try_join_all;

use crate::actors::graph::{GraphActor, GraphAddress};
use crate::actors::graph_follower::GraphFollower;
use crate::actors::messages::{
    AnswerQuestion, AskConcerned, AskOwner, AskPopulation, AskSnapshot, AskStatus, AskUnread, AskWaiting,
    Disturbed, Expect, Fence, Finding, Identify, IdentifyAll, Locate, LookAtSmall, Page, PageOfDependents,
    PartitionStatus, Rederive, Reset, Show, TakeIn, TakeInChanges, UseCatalog, Verified,
};
use kube_gc_core::graph::{
    Bookmark, Cursor, ExpectedChange, Follower, Generation, MemberMark, MemberPage, MembersOf,
    ObservedObject, OwnerState, Partition, PartitionId, SearchPage, SearchQuery, Sharding, Snapshot,
    StuckFilter, StuckObjects, Verification, ViewLimits,
};
use kube_gc_core::object::{Catalog, Disturbance, GroupResource, Identity, Key, Namespace, Uid};
use kube_gc_insight::{Fact, Need, facts};

/// The number of keys in one question, so that a partition soon returns to its work.
const KEYS_PER_QUESTION: usize = 512;

/// The addresses of all partitions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GraphHandle {
    sharding: Sharding,
    partitions: Arc<[GraphAddress]>,
    /// The disturbance under which the reports through this handle were found.
    under: Option<u64>,
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
    /// A handle for partitions in the order of their ids.
    #[must_use]
    pub fn new(sharding: Sharding, partitions: Vec<GraphAddress>) -> Self {
        debug_assert_eq!(partitions.len(), usize::from(sharding.count()));
        Self { sharding, partitions: partitions.into(), under: None }
    }

    /// A handle for work that began under this disturbance. Its reports are void after another
    /// disturbance.
    #[must_use]
    pub fn under(&self, disturbance: u64) -> Self {
        Self { under: Some(disturbance), ..self.clone() }
    }

    /// Which partition holds a namespace's objects.
    #[must_use]
    pub fn partition_of(&self, namespace: Option<&Namespace>) -> PartitionId {
        self.sharding.of(namespace)
    }

    /// All partitions.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.sharding.count()).map(PartitionId)
    }

    /// Asks one partition.
    pub(crate) async fn ask<M>(&self, partition: PartitionId, message: M) -> Answer<M::Result>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        GraphActor: Handler<M>,
        <GraphActor as actix::Actor>::Context: ToEnvelope<GraphActor, M>,
    {
        Ok(self.address(partition)?.messages.send(message).await?)
    }

    fn address(&self, PartitionId(partition): PartitionId) -> Answer<&GraphAddress> {
        self.partitions.get(usize::from(partition)).ok_or(PartitionEnded)
    }

    /// Asks one partition a question of a person, which it answers between two batches of changes.
    async fn ask_between<A: Send + 'static>(
        &self,
        partition: PartitionId,
        question: impl FnOnce(&mut Partition) -> A + Send + 'static,
    ) -> Answer<A> {
        let GraphAddress { messages, questions } = self.address(partition)?;
        let answered = questions.send(question);
        // For a partition that has nothing else to do.
        messages.do_send(AnswerQuestion);
        answered.await.map_err(|_| PartitionEnded)
    }

    async fn ask_all<M>(&self, message: impl Fn() -> M) -> Answer<Vec<M::Result>>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        GraphActor: Handler<M>,
        <GraphActor as actix::Actor>::Context: ToEnvelope<GraphActor, M>,
    {
        try_join_all(self.partitions().map(|id| self.ask(id, message()))).await
    }

    /// Puts a monitor's changes into one partition; see [`TakeInChanges`].
    pub async fn take_in(&self, partition: PartitionId, message: TakeInChanges) -> Answer<()> {
        self.ask(partition, message).await
    }

    /// Puts this into one partition.
    #[cfg(test)]
    pub async fn take_in_one(&self, partition: PartitionId, message: TakeIn) -> Answer<()> {
        self.ask(partition, message).await
    }

    /// Puts the same into every partition.
    pub async fn take_in_everywhere(&self, message: impl Fn() -> TakeIn) -> Answer<()> {
        self.ask_all(message).await.map(drop)
    }

    /// Replaces the catalog in every partition.
    pub async fn use_catalog(&self, catalog: &Arc<Catalog>) -> Answer<()> {
        self.ask_all(|| UseCatalog(Arc::clone(catalog))).await.map(drop)
    }

    /// The state of a key, as a worker needs it.
    pub async fn look(&self, key: &Key) -> Answer<Snapshot> {
        self.ask(self.sharding.of(key.namespace.as_ref()), AskSnapshot(key.clone())).await
    }

    /// The same, but `None` for an object with very many owner references.
    pub async fn look_at_small(&self, key: &Key) -> Answer<Option<Snapshot>> {
        self.ask(self.sharding.of(key.namespace.as_ref()), LookAtSmall(key.clone())).await
    }

    /// What is known about an identity as an owner.
    pub async fn owner_state(&self, identity: &Identity) -> Answer<OwnerState> {
        self.ask(self.sharding.of(identity.namespace.as_ref()), AskOwner(identity.clone())).await
    }

    /// Whether a dependent, wherever it is, blocks the owner with this uid through a
    /// part of the API that could not be read.
    pub async fn is_blocked_through_unread(&self, owner: &Uid) -> Answer<bool> {
        Ok(self.ask_all(|| AskUnread(owner.clone())).await?.contains(&true))
    }

    /// Reports what a look-up found.
    pub async fn verified(
        &self,
        identity: &Identity,
        generation: Generation,
        finding: Finding,
    ) -> Answer<Verification> {
        let verified = Verified { identity: identity.clone(), generation, under: self.under, finding };
        self.ask(self.sharding.of(identity.namespace.as_ref()), verified).await
    }

    /// One page of an owner's dependents.
    pub async fn dependents(&self, owner: &Key, after: Option<Bookmark>, limit: usize) -> Answer<Page> {
        let page = PageOfDependents { owner: owner.clone(), after, limit };
        self.ask(self.sharding.of(owner.namespace.as_ref()), page).await
    }

    /// All observed objects with this uid, in any namespace.
    pub async fn locate(&self, uid: &Uid) -> Answer<Vec<Identity>> {
        let found = self.ask_all(|| Locate(uid.clone())).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The identity of a key, for display. For an unverified owner, it is a guess.
    pub async fn identify(&self, key: &Key) -> Answer<Option<Identity>> {
        self.ask(self.sharding.of(key.namespace.as_ref()), Identify(key.clone())).await
    }

    /// The state of these objects, in their order; `None` for objects that no monitor shows.
    /// Queues nothing.
    pub async fn show(&self, keys: &[Key]) -> Answer<Vec<Option<ObservedObject>>> {
        let mut places: HashMap<PartitionId, Vec<usize>> = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            places.entry(self.sharding.of(key.namespace.as_ref())).or_default().push(place);
        }
        let mut all = vec![None; keys.len()];
        for (partition, places) in places {
            for places in places.chunks(KEYS_PER_QUESTION) {
                let asked = places.iter().map(|&place| keys[place].clone()).collect();
                let shown = self.ask(partition, Show(asked)).await?;
                for (&place, shown) in places.iter().zip(shown) {
                    all[place] = shown;
                }
            }
        }
        Ok(all)
    }

    /// Those of these keys that may have waited for owners of a type.
    pub async fn concerned(&self, keys: Vec<Key>, by: &Arc<BTreeSet<GroupResource>>) -> Answer<Vec<Key>> {
        let mut concerned = Vec::new();
        for partition in self.partitions() {
            let here = |key: &&Key| self.sharding.of(key.namespace.as_ref()) == partition;
            let here: Vec<Key> = keys.iter().filter(here).cloned().collect();
            for keys in here.chunks(KEYS_PER_QUESTION) {
                let asked = AskConcerned { keys: keys.to_vec(), by: Arc::clone(by) };
                let answer = self.ask(partition, asked).await?;
                concerned.extend(keys.iter().zip(answer).filter(|(_, is)| *is).map(|(key, _)| key.clone()));
            }
        }
        Ok(concerned)
    }

    /// Notes that an event of this object must follow. Does not wait: the partition handles every
    /// later question about the object after this.
    pub fn expect(&self, key: &Key, change: ExpectedChange) {
        let partition = self.sharding.of(key.namespace.as_ref());
        if let Ok(address) = self.address(partition) {
            address.messages.do_send(Expect { key: key.clone(), change, under: self.under });
        }
    }

    /// Resolves when all links between partitions that were queued before are applied.
    pub async fn fence(&self) -> Answer<()> {
        self.ask_all(|| Fence).await.map(drop)
    }

    /// Forgets proofs of absence from before a disturbance.
    pub async fn disturbed(&self, disturbance: &Disturbance) -> Answer<()> {
        self.ask_all(|| Disturbed(disturbance.clone())).await.map(drop)
    }

    /// Queues everything that may need work.
    pub async fn rederive(&self) -> Answer<()> {
        self.ask_all(|| Rederive).await.map(drop)
    }

    /// Forgets the whole graph.
    pub async fn reset(&self) -> Answer<()> {
        self.ask_all(|| Reset).await.map(drop)
    }

    /// The status of every partition, in order.
    pub async fn status(&self) -> Answer<Vec<PartitionStatus>> {
        self.ask_all(|| AskStatus).await
    }

    /// How many objects of a type there are.
    pub async fn population(&self, resource: &GroupResource) -> Answer<usize> {
        Ok(self.ask_all(|| AskPopulation(resource.clone())).await?.into_iter().sum())
    }

    /// The stuck objects that are in no queue, by partition.
    pub async fn waiting(&self, filter: &StuckFilter) -> Answer<Vec<StuckObjects>> {
        self.ask_all(|| AskWaiting(filter.clone())).await
    }

    /// The first observed object with this uid in each partition. `follower` is woken when another
    /// look may find others.
    pub async fn locate_for(&self, uid: &Uid, follower: Option<&Follower>) -> Answer<Vec<Identity>> {
        let asked = self.partitions().map(|partition| {
            let (uid, follower) = (uid.clone(), follower.cloned());
            self.ask_between(partition, move |partition| {
                if let Some(follower) = follower {
                    partition.follow(&follower, &uid);
                }
                partition.observed(&uid)
            })
        });
        Ok(try_join_all(asked).await?.into_iter().flatten().collect())
    }

    /// Facts that a question needs. Live reads are left out. `follower` is woken when one of them
    /// may have changed.
    pub async fn facts(
        &self,
        needs: &[Need],
        limits: ViewLimits,
        follower: Option<&Follower>,
    ) -> Answer<Vec<Fact>> {
        let mut all = Vec::new();
        for partition in self.partitions() {
            let here = |need: &&Need| self.sharding.of(need.namespace()) == partition;
            let mut here: Vec<Need> = needs.iter().filter(here).cloned().collect();
            while !here.is_empty() {
                let follower = follower.cloned();
                let answer = self.ask_between(partition, move |partition| {
                    let (found, done) = facts(partition, &here, limits, follower.as_ref());
                    (found, here.split_off(done))
                });
                let (found, rest) = answer.await?;
                all.extend(found);
                here = rest;
            }
        }
        Ok(all)
    }

    /// Follows the answers to a question.
    #[must_use]
    pub fn follower(&self) -> GraphFollower {
        GraphFollower::new(self.clone())
    }

    /// Forgets a follower. Does not wait.
    pub(super) fn unfollow(&self, id: u64) {
        for GraphAddress { messages, questions } in &*self.partitions {
            questions.tell(move |partition| partition.unfollow(id));
            messages.do_send(AnswerQuestion);
        }
    }

    /// A page of a search in one partition.
    pub async fn search(
        &self,
        of: PartitionId,
        query: &Arc<SearchQuery>,
        after: Option<Cursor>,
        slots: usize,
    ) -> Answer<SearchPage> {
        let query = Arc::clone(query);
        self.ask_between(of, move |partition| partition.page_of_search(&query, after, slots)).await
    }

    /// Pages of these objects in one partition: one for each question, up to the one that brings
    /// it to this many visits.
    pub async fn members(
        &self,
        partition: PartitionId,
        of: Vec<(MembersOf, Option<MemberMark>)>,
        visits: usize,
    ) -> Answer<Vec<MemberPage>> {
        let pages = move |partition: &mut Partition| {
            let mut left = visits;
            let pages = of.iter().map_while(|(of, after)| {
                let page = (left > 0).then(|| partition.members(of, *after, left))?;
                left = left.saturating_sub(page.visits.max(1));
                Some(page)
            });
            pages.collect()
        };
        self.ask_between(partition, pages).await
    }

    /// The partitions that may have these objects.
    pub fn partitions_with(&self, of: &MembersOf) -> Vec<PartitionId> {
        of.place(self.sharding).map_or_else(|| self.partitions().collect(), |place| vec![place])
    }

    /// The types that the API server serves.
    pub async fn catalog(&self) -> Answer<Arc<Catalog>> {
        self.ask_between(Sharding::CLUSTER, |partition| Arc::clone(partition.catalog())).await
    }

    /// The identities of these keys, in their order; see [`identify`](Self::identify).
    pub async fn identify_all(&self, keys: &[Key]) -> Answer<Vec<Option<Identity>>> {
        let mut found = vec![None; keys.len()];
        for partition in self.partitions() {
            let here = |(_, key): &(usize, &Key)| self.sharding.of(key.namespace.as_ref()) == partition;
            let (places, keys): (Vec<usize>, Vec<Key>) =
                keys.iter().enumerate().filter(here).map(|(place, key)| (place, key.clone())).unzip();
            if !keys.is_empty() {
                let identities = self.ask(partition, IdentifyAll(keys)).await?;
                for (place, identity) in places.into_iter().zip(identities) {
                    found[place] = identity;
                }
            }
        }
        Ok(found)
    }
}
