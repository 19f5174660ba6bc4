//! Answers the questions of people from the graph of the running collector, and from a few live
//! reads where the graph does not know.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use kube_gc_client::{Api, ApiError, GroupFailure, RateLimiter};
use kube_gc_controller::actors::graph_handle::{GraphHandle, PartitionEnded};
use kube_gc_core::graph::{OwnerState, PartitionId, SearchQuery, ViewLimits};
use kube_gc_core::object::{
    DeletionState, GroupResource, Identity, Key, Namespace, ResourceType, Scope, Uid,
};
use kube_gc_core::text::bounded;
use kube_gc_insight::{
    Answer, Asker, Details, Fact, Knowledge, Live, Need, ObjectName, Outside, Report, Source, Unseen, ask,
};
use kube_gc_observe::access::Cache;

use super::queries::ExplainQuery;
use super::status::CollectorStatus;

/// The cells of a table's row, each with the name of its column.
type Row = Vec<(String, String)>;

/// The live reads of all questions together: 20 a second, so that nobody who may read the pages
/// can keep the API server busy. After a pause, those of one question do not wait.
const READS_A_SECOND: u32 = 20;
/// The most live reads of one question.
const MOST_READS: u32 = 128;
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

/// What a search finds.
type Found = Vec<(Identity, DeletionState)>;

/// Asks the graph and, sparingly, the API server.
#[derive(Clone, Debug)]
pub struct Questions {
    status: CollectorStatus,
    graph: GraphHandle,
    api: Api,
    pub(super) pace: Arc<RateLimiter>,
    recent: Cache<Identity, Live>,
}

/// Which live reads count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Those that are made for this question.
    Now,
    /// Also those of other such questions in the last ten seconds. They have no details.
    Recent,
}

impl Questions {
    /// Questions to the graph of this collector and this API server.
    pub fn new(status: CollectorStatus, api: Api) -> Self {
        let pace = Arc::new(pace());
        Self { graph: status.graph.clone(), status, api, pace, recent: Cache::new(MOST_KEPT) }
    }

    /// What the graph does not show of a namespace, or of the cluster, whatever it is asked, and what `ending`,
    /// the namespace that the question is about, waits for. What becomes complete during a question was not
    /// when it began, so this is asked first.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn outside(
        &self,
        of: Option<&Namespace>,
        ending: Option<&Namespace>,
    ) -> Result<Outside, PartitionEnded> {
        let catalog = self.graph.catalog().await?;
        let discovery = self.status.discovery();
        let failures = discovery.failing.iter().map(|failing| &failing.failure);
        let mut outside = GroupFailure::outside(failures);
        outside.source = match self.status.gate.is_dry_run() {
            true => Source::DryRun,
            false if self.status.is_standby() => Source::Standby,
            false => Source::Collector,
        };
        let matters = |resource: &ResourceType| of.is_none() || resource.scope == Scope::Namespaced;
        if discovery.discovered.is_none() {
            let why = "the collector has just started, and has not discovered any type yet".to_owned();
            outside.types.push(Unseen { what: "all objects".to_owned(), why });
        }
        for monitor in self.status.registry.all().iter().filter(|monitor| !monitor.is_up_to_date()) {
            if matters(&monitor.resource) {
                let why = bounded(monitor.why_incomplete());
                // Without the right to list it, this collector alone fails.
                let broken = monitor.last_error.as_deref().filter(|error| !error.contains(": 403 "));
                let resource = &monitor.resource.group_resource;
                let unseen = Unseen { what: resource.to_string(), why };
                // A list of a namespace without such objects may succeed.
                if let Some((namespace, error)) = ending.zip(broken) {
                    let (namespace, resource) = (Some(namespace.clone()), Some(resource.clone()));
                    let inside = SearchQuery { namespace, resource, ..SearchQuery::default() };
                    if !self.search(vec![inside], 1).await?.1.is_empty() {
                        outside.silent_apis.push(unseen.silent(error));
                    }
                }
                outside.types.push(unseen);
            }
        }
        let ignored = self.status.ignored.iter().filter_map(|resource| catalog.resource(resource));
        outside.types.extend(ignored.filter(|resource| matters(resource)).map(|resource| Unseen {
            what: resource.group_resource.to_string(),
            why: "the collector ignores this type (`discovery.ignored`)".to_owned(),
        }));
        Ok(outside)
    }

    /// Asks a question until it has an answer, which says what it does not rest on.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn ask<A: Report>(
        &self,
        limits: ViewLimits,
        freshness: Freshness,
        outside: Outside,
        question: impl Fn(&mut Asker<'_>) -> A,
    ) -> Result<Answer<A>, PartitionEnded> {
        let catalog = self.graph.catalog().await?;
        let mut known = Knowledge::new(outside);
        loop {
            match ask(&known, &catalog, MOST_READS as usize, &question) {
                Ok(report) => return Ok(Answer::new(report, &known, Vec::new())),
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
        let mut reads = futures::stream::iter(needs)
            .map(async |need| {
                Ok::<_, PartitionEnded>(match need {
                    Need::Live(identity) => Some(self.read(identity, freshness).await),
                    Need::Users(claim) => {
                        self.pace.acquire().await;
                        let pods = self.api.pods_that_use(&claim).await.map_err(|error| bounded(&error));
                        Some(Fact::Users(claim, pods))
                    }
                    Need::Elsewhere(owner) => {
                        let holder = self.find(&owner.uid, Some(&owner.resource.group_resource)).await?;
                        let holder = holder.filter(|holder| holder.name == owner.name);
                        Some(Fact::Elsewhere(owner, holder.as_ref().map(ObjectName::from)))
                    }
                    Need::Node(_) | Need::Object(_) | Need::Owner(_) => None,
                })
            })
            .buffer_unordered(AT_ONCE);
        while let Some(fact) = reads.next().await {
            fact?.into_iter().for_each(|fact| known.learn(fact));
        }
        Ok(())
    }

    async fn read(&self, identity: Identity, freshness: Freshness) -> Fact {
        let is_recent = freshness == Freshness::Recent;
        if is_recent && let Some(live) = self.recent.get(&identity) {
            return Fact::Live(identity, live);
        }
        self.pace.acquire().await;
        let mut live = self.api.read_live(&identity).await;
        if is_recent {
            if let Live::Found(object) = &mut live {
                object.details = Details::default();
            }
            if format!("{identity:?}{live:?}").len() <= MOST_BYTES {
                self.recent.keep(identity.clone(), live.clone(), RECENT);
            }
        }
        Fact::Live(identity, live)
    }

    /// What the server's own table says of an object that is observed; inside is why it cannot say so now.
    pub async fn row(&self, of: &ExplainQuery) -> Result<Option<Result<Row, ApiError>>, PartitionEnded> {
        let Some(root) = self.find(&of.uid, of.resource.as_ref()).await? else { return Ok(None) };
        let state = self.graph.owner_state(&root).await?;
        let OwnerState::Observed { resource_version: at, .. } = state else { return Ok(None) };
        self.pace.acquire().await;
        Ok(Some(match self.api.table_row(&root, at.as_ref()).await {
            // Others may still be answered: there is no such object or path, or no right to read it.
            Err(error) if matches!(error.code, Some(..429)) => Ok(Row::new()),
            row => row,
        }))
    }

    /// What goes with an object that does not own it.
    pub async fn goes_with(&self, root: &Identity) -> (Vec<(usize, Key)>, Option<Unseen>) {
        self.pace.acquire().await;
        self.api.goes_with(std::slice::from_ref(root), 0).await
    }

    /// The best objects that the first of these searches finds that finds anything, with its place, the
    /// best first, and whether there are more. Without a text, one is as good as another.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn search(
        &self,
        queries: Vec<SearchQuery>,
        limit: usize,
    ) -> Result<(Option<usize>, Found, bool), PartitionEnded> {
        let partitions_of = |query: &SearchQuery| match &query.namespace {
            Some(namespace) => vec![self.graph.partition_of(Some(namespace))],
            None => self.graph.partitions().collect(),
        };
        let partitions: BTreeSet<PartitionId> = queries.iter().flat_map(partitions_of).collect();
        let (queries, mut best) = (Arc::from(queries), Vec::new());
        'all: for partition in partitions {
            let mut after = None;
            loop {
                let page = self.graph.search(partition, &queries, after, SEARCH_SLOTS, limit + 1);
                let (found, next) = page.await?;
                best.extend(found);
                best.sort_by(|(fit, one, _), (other_fit, other, _)| {
                    (fit, &one.name, &one.namespace).cmp(&(other_fit, &other.name, &other.namespace))
                });
                best.truncate(limit + 1);
                if best.len() > limit && queries.iter().all(|query| query.text.is_empty()) {
                    break 'all;
                }
                after = next;
                if after.is_none() {
                    break;
                }
            }
        }
        let first = best.first().map(|(fit, ..)| fit.search);
        best.retain(|(fit, ..)| Some(fit.search) == first);
        let is_more = best.len() > limit;
        best.truncate(limit);
        Ok((first, best.into_iter().map(|(_, identity, deletion)| (identity, deletion)).collect(), is_more))
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
        Ok(found.into_iter().find(|found| is_of(found, resource)))
    }

    /// The same, or else the owner with this uid that references still name.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn find_root(
        &self,
        uid: &Uid,
        resource: Option<&GroupResource>,
    ) -> Result<Option<Identity>, PartitionEnded> {
        if let Some(found) = self.find(uid, resource).await? {
            return Ok(Some(found));
        }
        let named = self.graph.only_named(uid).await?;
        Ok(named.into_iter().find(|named| is_of(named, resource)))
    }
}

fn is_of(identity: &Identity, resource: Option<&GroupResource>) -> bool {
    resource.is_none_or(|resource| identity.resource.group_resource == *resource)
}

fn pace() -> RateLimiter {
    RateLimiter::new(READS_A_SECOND, MOST_READS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn the_reads_of_one_question_do_not_wait_and_those_of_many_do() {
        let (pace, begun) = (pace(), Instant::now());
        for _ in 0..MOST_READS {
            pace.acquire().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..READS_A_SECOND * 10 {
            pace.acquire().await;
        }
        assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    }
}
