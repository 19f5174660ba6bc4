//! Answers the questions of people from the graph of the running collector, and from a few live
//! reads where the graph does not know.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use kube_gc_client::{Api, ApiError};
use kube_gc_controller::actors::graph_handle::{GraphHandle, PartitionEnded};
use kube_gc_core::graph::{PartitionId, SearchQuery, ViewLimits};
use kube_gc_core::object::{DeletionState, GroupResource, Identity, Namespace, OwnerReference, Uid};
use kube_gc_insight::{
    AbsenceEvidence, Asker, Details, Fact, Knowledge, Live, LiveObject, NamespaceCondition, Need, Unseen, ask,
};
use kube_gc_observe::http::{Answer, Cache};

/// The live reads of all questions together: 20 a second, so that nobody who may read the pages
/// can keep the API server busy.
const READ_INTERVAL: Duration = Duration::from_millis(50);
/// The most live reads of one question.
const MOST_READS: usize = 128;
/// The live reads of one question at the same time.
const AT_ONCE: usize = 4;
/// How long a read counts, so that pages that are asked again and again do not keep the API server
/// busy.
const RECENT: Duration = Duration::from_secs(10);
/// The most reads that are kept.
const MOST_KEPT: usize = 256;
/// The most bytes of a read that is kept. Names and uids of references can have any length.
const MOST_BYTES: usize = 8 << 10;
/// The slots of a page of a search: less than 5 ms of a partition's time.
const SEARCH_SLOTS: usize = 10_000;

/// Asks the graph and, sparingly, the API server.
#[derive(Clone)]
pub struct Questions {
    graph: GraphHandle,
    api: Api,
    pace: Arc<Mutex<Option<Interval>>>,
    recent: Cache<Identity, Live, Infallible>,
}

/// Which live reads count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Those that are made for this question.
    Now,
    /// Also those of other such questions in the last ten seconds. They have no details.
    Recent,
}

impl std::fmt::Debug for Questions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Questions").finish_non_exhaustive()
    }
}

impl Questions {
    /// Questions to this graph and this API server.
    pub fn new(graph: GraphHandle, api: Api) -> Self {
        Self { graph, api, pace: Arc::default(), recent: Cache::new(MOST_KEPT) }
    }

    /// Asks a question until it has an answer. Also returns what could not be read.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn ask<A>(
        &self,
        limits: ViewLimits,
        freshness: Freshness,
        question: impl Fn(&mut Asker<'_>) -> A,
    ) -> Result<(A, Vec<Unseen>), PartitionEnded> {
        let catalog = self.graph.catalog().await?;
        let mut known = Knowledge::default();
        loop {
            match ask(&known, &catalog, MOST_READS, &question) {
                Ok(answer) => return Ok((answer, known.unseen())),
                Err(needs) => self.find_out(needs, &mut known, limits, freshness).await?,
            }
        }
    }

    /// Finds out what a question needs.
    async fn find_out(
        &self,
        needs: Vec<Need>,
        known: &mut Knowledge,
        limits: ViewLimits,
        freshness: Freshness,
    ) -> Result<(), PartitionEnded> {
        for fact in self.graph.facts(&needs, limits).await? {
            known.learn(fact);
        }
        let reads = needs.into_iter().filter_map(|need| match need {
            Need::Live(identity) => Some(identity),
            Need::Node(_) | Need::Object(_) | Need::Owner(_) => None,
        });
        let mut reads = futures::stream::iter(reads)
            .map(|identity| self.read(identity, freshness))
            .buffer_unordered(AT_ONCE);
        while let Some(fact) = reads.next().await {
            known.learn(fact);
        }
        Ok(())
    }

    async fn read(&self, identity: Identity, freshness: Freshness) -> Fact {
        let (questions, of) = (self.clone(), identity.clone());
        let ask = || async move {
            let value = without_details(questions.read_now(&of).await);
            let keep = if bytes(&of, &value) > MOST_BYTES { Duration::ZERO } else { RECENT };
            Ok(Answer { value, keep })
        };
        let recent = match freshness {
            Freshness::Now => None,
            Freshness::Recent => self.recent.get(identity.clone(), ask).await.ok(),
        };
        let live = match recent {
            Some(Ok(live)) => live,
            None => self.read_now(&identity).await,
        };
        Fact::Live(identity, live)
    }

    async fn read_now(&self, identity: &Identity) -> Live {
        self.turn().await;
        self.api.read_live(identity).await
    }

    /// Waits for the turn of a live read.
    async fn turn(&self) {
        let mut pace = self.pace.lock().await;
        let interval = pace.get_or_insert_with(|| {
            let mut interval = interval(READ_INTERVAL);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        interval.tick().await;
    }

    /// The objects in a namespace, up to a limit, and whether there are more.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn in_namespace(
        &self,
        namespace: &Namespace,
        limit: usize,
    ) -> Result<(Vec<(Identity, DeletionState)>, bool), PartitionEnded> {
        let partition = self.graph.partition_of(Some(namespace));
        let query = SearchQuery { namespace: Some(namespace.clone()), ..SearchQuery::default() };
        let mut found = Vec::new();
        let more = self.search_in(partition, &Arc::new(query), limit, &mut found).await?;
        Ok((found, more))
    }

    /// What the namespace controller says about a namespace.
    ///
    /// # Errors
    /// The namespace cannot be read.
    pub async fn namespace_conditions(&self, root: &Identity) -> Result<Vec<NamespaceCondition>, ApiError> {
        self.turn().await;
        self.api.namespace_conditions(root).await
    }

    /// The first objects that a search finds, in the order of the partitions, and whether there are
    /// more.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn search(
        &self,
        query: SearchQuery,
        limit: usize,
    ) -> Result<(Vec<(Identity, DeletionState)>, bool), PartitionEnded> {
        let query = Arc::new(query);
        let mut found = Vec::new();
        for partition in self.graph.partitions() {
            if self.search_in(partition, &query, limit, &mut found).await? {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }

    /// Adds what a search finds in one partition, until there are more than `limit` objects. Then
    /// it drops what is too much, and returns true.
    async fn search_in(
        &self,
        partition: PartitionId,
        query: &Arc<SearchQuery>,
        limit: usize,
        found: &mut Vec<(Identity, DeletionState)>,
    ) -> Result<bool, PartitionEnded> {
        let mut after = None;
        loop {
            let page = self.graph.search(partition, query, after, SEARCH_SLOTS).await?;
            found.extend(page.found);
            if found.len() > limit {
                found.truncate(limit);
                return Ok(true);
            }
            after = page.next;
            if after.is_none() {
                return Ok(false);
            }
        }
    }

    /// The object with this uid; of several in different resources, that of `resource`, or else
    /// the first one.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn find(
        &self,
        uid: &Uid,
        resource: Option<&GroupResource>,
    ) -> Result<Option<Identity>, PartitionEnded> {
        let found = self.graph.locate(uid).await?;
        let fits = |identity: &Identity| {
            resource.is_none_or(|resource| identity.resource.group_resource == *resource)
        };
        Ok(found.into_iter().find(fits))
    }
}

fn without_details(live: Live) -> Live {
    match live {
        Live::Found(object) => Live::Found(Box::new(LiveObject { details: Details::default(), ..*object })),
        other => other,
    }
}

/// About how many bytes a read takes.
fn bytes(identity: &Identity, live: &Live) -> usize {
    let text = |uid: &Uid| uid.to_string().len();
    let named = size_of::<(Identity, Live)>() + identity.name.len() + text(&identity.uid);
    named
        + match live {
            Live::Found(object) => {
                let owners = object.facts.owners.iter().map(|owner| {
                    let texts = owner.api_version.len() + owner.kind.len() + owner.name.len();
                    size_of::<OwnerReference>() + texts + text(&owner.uid)
                });
                size_of::<LiveObject>() + object.facts.name.len() + owners.sum::<usize>()
            }
            Live::Absent(AbsenceEvidence::OtherUid(uid)) => text(uid),
            Live::Failed(why) => why.len(),
            Live::Absent(AbsenceEvidence::NotFound) | Live::NotAsked => 0,
        }
}

#[cfg(test)]
mod tests {
    use kube_gc_core::object::{ResourceType, Scope};

    use super::*;

    fn identity(name: &str) -> Identity {
        let resource = ResourceType {
            group_resource: GroupResource::new("", "events"),
            version: "v1".into(),
            kind: "Event".into(),
            scope: Scope::Cluster,
        };
        let uid = Uid::parse(name).unwrap();
        Identity { resource: Arc::new(resource), namespace: None, name: name.into(), uid }
    }

    #[test]
    fn a_read_is_as_large_as_its_texts() {
        let (name, why) = ("x".repeat(MOST_BYTES / 4), "y".repeat(MOST_BYTES));
        assert!(bytes(&identity(&name), &Live::Absent(AbsenceEvidence::NotFound)) < MOST_BYTES);
        assert!(bytes(&identity(&name), &Live::Failed(why)) > MOST_BYTES);
    }
}
