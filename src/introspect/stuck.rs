//! Stuck objects, collected from the pools and the graph.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use actix::MailboxError;

use crate::actors::graph_handle::PartitionEnded;
use crate::actors::pool::{AskStuck, StuckKey, StuckKeys};
use crate::api::ReplicaRole;
use crate::http::{ObjectView, StuckItem, StuckPage, StuckQuery, Timestamp, hint};
use crate::introspect::status::CollectorStatus;
use crate::telemetry::StuckReason;
use kube_gc_core::graph::{StuckCause, StuckCount, StuckDetail, StuckFilter, StuckObject, StuckObjects};
use kube_gc_core::object::{Identity, OwnerReference};
use kube_gc_core::text::{listed, word};

impl From<StuckCause> for StuckReason {
    fn from(cause: StuckCause) -> Self {
        match cause {
            StuckCause::Blocked => Self::Blocked,
            StuckCause::InvalidScope => Self::InvalidScope,
            StuckCause::UnseenWrite => Self::UnseenWrite,
        }
    }
}

/// The number of stuck objects for each reason. Every reason has an entry.
pub type Tallies = BTreeMap<StuckReason, StuckCount>;

impl CollectorStatus {
    /// The number of stuck objects, and how long they have been stuck. Zero on a standby, where all
    /// of them wait for another replica.
    ///
    /// # Errors
    /// When a part of the collector has ended.
    pub async fn stuck_tallies(&self) -> Result<Tallies, PartitionEnded> {
        if self.is_standby() {
            return Ok(tallies(&[], &[]));
        }
        let (pools, graph) = self.stuck_parts(AskStuck::default()).await?;
        Ok(tallies(&pools, &graph))
    }

    /// The stuck objects, with reasons.
    ///
    /// # Errors
    /// When a part of the collector has ended.
    pub async fn stuck(&self, query: &StuckQuery) -> Result<StuckPage, PartitionEnded> {
        let limit = query.limit();
        let StuckQuery { namespace, resource, reason, .. } = query.clone();
        let ask = AskStuck { limit, per_namespace: None, namespace, resource, only: reason };
        let (pools, graph) = self.stuck_parts(ask).await?;
        let totals = tallies(&pools, &graph);
        let totals = totals.into_iter().map(|(reason, tally)| (reason.as_str(), tally.count)).collect();

        let stuck = self.described(merged(pools, graph, limit)).await?;
        let standby = self.is_standby();
        Ok(StuckPage { standby, totals, stuck: stuck.into_iter().map(|(_, item)| item).collect() })
    }

    /// The objects that are stuck for a reason, the longest wait first: no more than `limit` of
    /// each part of the collector, and of these no more than `per_namespace` in one namespace.
    ///
    /// # Errors
    /// When a part of the collector has ended.
    pub async fn named_stuck(
        &self,
        reason: StuckReason,
        limit: usize,
        per_namespace: usize,
    ) -> Result<Vec<NamedStuck>, PartitionEnded> {
        let ask =
            AskStuck { limit, per_namespace: Some(per_namespace), only: Some(reason), ..AskStuck::default() };
        let (pools, graph) = self.stuck_parts(ask).await?;
        let stuck = merged(pools, graph, usize::MAX);
        let waits: Vec<Duration> = stuck.iter().map(Stuck::waited).collect();
        let named = waits.into_iter().zip(self.described(stuck).await?);
        let named = named.filter_map(|(waited, (object, item))| {
            Some(NamedStuck { object: object?, reason, waited, message: item.message })
        });
        Ok(named.collect())
    }

    /// Whether another replica works.
    pub fn is_standby(&self) -> bool {
        matches!(*self.gate().role().borrow(), ReplicaRole::Standby { .. })
    }

    async fn stuck_parts(
        &self,
        ask: AskStuck,
    ) -> Result<(Vec<StuckKeys>, Vec<StuckObjects>), PartitionEnded> {
        let only = match ask.only {
            None => Some(None),
            Some(reason) => {
                StuckCause::ALL.into_iter().find(|cause| StuckReason::from(*cause) == reason).map(Some)
            }
        };
        let filter = StuckFilter {
            // If only another reason is wanted, the graph needs to return counts only.
            limit: only.map_or(0, |_| ask.limit),
            per_namespace: ask.per_namespace,
            namespace: ask.namespace.clone(),
            resource: ask.resource.clone(),
            only: only.flatten(),
            patience: StuckReason::UnseenWrite.patience(),
        };
        let delete: Result<_, MailboxError> = self.delete.send(ask.clone()).await;
        let orphan: Result<_, MailboxError> = self.orphan.send(ask).await;
        Ok((vec![delete?, orphan?], self.graph().waiting(&filter).await?))
    }

    /// Adds the names of objects. Keys do not contain them.
    async fn described(
        &self,
        stuck: Vec<Stuck>,
    ) -> Result<Vec<(Option<Identity>, StuckItem)>, PartitionEnded> {
        let now = SystemTime::now();
        let keys: Vec<_> = stuck.iter().filter_map(Stuck::key).cloned().collect();
        let mut identities = self.graph().identify_all(&keys).await?.into_iter();
        let describe = |stuck: Stuck| match stuck {
            Stuck::InQueue(stuck) => {
                let identity = identities.next().flatten();
                // Without one, the object has left the graph in the meantime.
                let object = identity.as_ref().map_or_else(|| (&stuck.key).into(), ObjectView::from);
                (identity, in_queue(object, stuck, now))
            }
            Stuck::InGraph(stuck) => {
                let item = in_graph(&stuck, now);
                (Some(stuck.object), item)
            }
        };
        Ok(stuck.into_iter().map(describe).collect())
    }
}

/// An object that is stuck, and what it waits for.
#[derive(Clone, Debug)]
pub struct NamedStuck {
    /// The object.
    pub object: Identity,
    /// Why it is stuck.
    pub reason: StuckReason,
    /// For how long.
    pub waited: Duration,
    /// The last error, in the server's own words, or what the object waits for.
    pub message: String,
}

/// What the pools and the graph name, the longest wait first.
fn merged(pools: Vec<StuckKeys>, graph: Vec<StuckObjects>, limit: usize) -> Vec<Stuck> {
    let keys = pools.into_iter().flat_map(|pool| pool.named);
    let objects = graph.into_iter().flat_map(|partition| partition.objects);
    let mut stuck: Vec<Stuck> = keys.map(Stuck::InQueue).chain(objects.map(Stuck::InGraph)).collect();
    stuck.sort_by_key(|stuck| std::cmp::Reverse(stuck.waited()));
    stuck.truncate(limit);
    stuck
}

/// One stuck object.
#[derive(Debug)]
enum Stuck {
    InQueue(StuckKey),
    InGraph(StuckObject),
}

impl Stuck {
    const fn waited(&self) -> Duration {
        match self {
            Self::InQueue(stuck) => stuck.waited,
            Self::InGraph(object) => object.waited,
        }
    }

    const fn key(&self) -> Option<&kube_gc_core::object::Key> {
        match self {
            Self::InQueue(stuck) => Some(&stuck.key),
            Self::InGraph(_) => None,
        }
    }
}

fn tallies(pools: &[StuckKeys], graph: &[StuckObjects]) -> Tallies {
    let mut all: Tallies =
        StuckReason::ALL.into_iter().map(|reason| (reason, StuckCount::default())).collect();
    let pools = pools.iter().flat_map(|pool| &pool.tallies).copied();
    let graph = graph.iter().flat_map(|partition| &partition.counts);
    for (reason, tally) in pools.chain(graph.map(|(cause, tally)| ((*cause).into(), *tally))) {
        all.entry(reason).or_default().merge(tally);
    }
    all
}

fn since(now: SystemTime, waited: Duration) -> Timestamp {
    Timestamp(now.checked_sub(waited).unwrap_or(now))
}

fn in_queue(object: ObjectView, stuck: StuckKey, now: SystemTime) -> StuckItem {
    let StuckKey { key: _, reason, waited, failure, next_retry } = stuck;
    // A braked deletion waits for a person, not for a retry.
    let is_tried = failure.is_some() && reason != StuckReason::Braked;
    let next_retry = is_tried.then_some(next_retry.as_secs_f64());
    let (attempts, message) = match failure {
        Some((attempts, error)) => (Some(attempts), error.to_string()),
        None => (None, "its dependents are being released before its finalizer is removed".to_owned()),
    };
    StuckItem {
        object,
        reason: reason.as_str(),
        since: since(now, waited),
        waiting_seconds: waited.as_secs_f64(),
        attempts,
        next_retry_seconds: next_retry,
        message,
        blocked_by: Vec::new(),
        hint: hint(reason),
    }
}

fn in_graph(stuck: &StuckObject, now: SystemTime) -> StuckItem {
    let StuckObject { object, waited, detail } = stuck;
    let reason = StuckReason::from(detail.cause());
    let (message, blocked_by) = match detail {
        StuckDetail::Blocked { count, some } => {
            let names: Vec<String> = some.iter().map(ToString::to_string).collect();
            let among = if names.len() < *count { ", among them" } else { ":" };
            let what = if *count == 1 {
                "reference of a dependent blocks"
            } else {
                "references of dependents block"
            };
            (format!("{count} {what} it{among} {}", names.join(", ")), some.iter().map(Into::into).collect())
        }
        StuckDetail::InvalidScope { count, some } => {
            let names = some.iter().map(|OwnerReference { kind, name, uid, .. }| {
                format!("{} {} ({})", word(kind), word(name), uid.shown())
            });
            let names = listed(", ", *count, names);
            (format!("it is cluster-scoped and names namespaced owners: {names}"), Vec::new())
        }
        StuckDetail::UnseenWrite => {
            ("it was written, and is evaluated again when the watch shows the result".to_owned(), Vec::new())
        }
    };
    StuckItem {
        object: object.into(),
        reason: reason.as_str(),
        since: since(now, *waited),
        waiting_seconds: waited.as_secs_f64(),
        attempts: None,
        next_retry_seconds: None,
        message,
        blocked_by,
        hint: hint(reason),
    }
}
