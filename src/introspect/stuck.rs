//! Stuck objects, collected from the pools and the graph, and what a person can do about them.

mod warnings;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use actix::MailboxError;
use serde::Serialize;

use super::queries::{DEFAULT_LIMIT, StuckQuery};
use super::status::CollectorStatus;
use kube_gc_client::ReplicaRole;
use kube_gc_controller::actors::graph_handle::PartitionEnded;
use kube_gc_controller::actors::pool::{AskStuck, StuckKey, StuckKeys};
use kube_gc_core::graph::{StuckCause, StuckCount, StuckDetail, StuckFilter, StuckObject, StuckObjects};
use kube_gc_core::object::{GroupResource, Identity, Key, OwnerReference};
use kube_gc_core::text::{listed, word};
use kube_gc_insight::{Explanation, Outcome};
use kube_gc_observe::telemetry::{PrintedObject, StuckReason, Timestamp};

pub use warnings::warn;

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
        Ok(self
            .find_stuck(StuckFilter { patience: StuckReason::OLD, ..StuckFilter::default() }, None)
            .await?
            .0)
    }

    /// The stuck objects, with reasons.
    ///
    /// # Errors
    /// When a part of the collector has ended.
    pub async fn stuck(&self, query: &StuckQuery) -> Result<StuckPage, PartitionEnded> {
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
        let StuckQuery { namespace, resource, reason, older, .. } = query.clone();
        let patience = older.unwrap_or(StuckReason::OLD);
        let filter = StuckFilter { limit, per_namespace: None, namespace, resource, patience };
        let (totals, found) = self.find_stuck(filter, reason).await?;
        Ok(StuckPage {
            standby: self.is_standby(),
            totals: totals.into_iter().map(|(reason, tally)| (reason.name(), tally.count)).collect(),
            stuck: found.into_iter().take(limit).map(|found| found.item).collect(),
        })
    }

    /// The objects that have been stuck for a reason for so long, the longest wait first: no more than
    /// `limit` of each part of the collector, and of these no more than `per_namespace` in one namespace.
    ///
    /// # Errors
    /// When a part of the collector has ended.
    pub async fn named_stuck(
        &self,
        reason: StuckReason,
        limit: usize,
        per_namespace: usize,
        older: Duration,
    ) -> Result<Vec<NamedStuck>, PartitionEnded> {
        let per_namespace = Some(per_namespace);
        let filter = StuckFilter { limit, per_namespace, patience: older, ..StuckFilter::default() };
        let (_, found) = self.find_stuck(filter, Some(reason)).await?;
        let named = found.into_iter().filter_map(|Found { identity, waited, item }| {
            Some(NamedStuck { object: identity?, reason, waited, message: item.message })
        });
        Ok(named.collect())
    }

    /// Whether another replica works.
    pub fn is_standby(&self) -> bool {
        matches!(*self.gate.role().borrow(), ReplicaRole::Standby { .. })
    }

    /// What the pools and the graph count and name, the longest wait first.
    async fn find_stuck(
        &self,
        filter: StuckFilter,
        only: Option<StuckReason>,
    ) -> Result<(Tallies, Vec<Found>), PartitionEnded> {
        let cause = only.and_then(|only| StuckCause::ALL.into_iter().find(|cause| only == (*cause).into()));
        // If only another reason is wanted, the graph needs to return counts only.
        let limit = if only.is_some() && cause.is_none() { 0 } else { filter.limit };
        let ask = AskStuck { filter: filter.clone(), only };
        let delete: Result<_, MailboxError> = self.delete.send(ask.clone()).await;
        let orphan: Result<_, MailboxError> = self.orphan.send(ask).await;
        let graph = self.graph.waiting(StuckFilter { limit, ..filter }, cause).await?;
        let pools = vec![delete?, orphan?];
        let totals = tallies(&pools, &graph);

        let now = SystemTime::now();
        let in_pools: Vec<StuckKey> = pools.into_iter().flat_map(|pool| pool.named).collect();
        // Keys do not contain names.
        let keys: Vec<Key> = in_pools.iter().map(|stuck| stuck.key.clone()).collect();
        let identities = self.graph.identify_all(&keys).await?;
        let in_pools = in_pools.into_iter().zip(identities);
        let in_pools = in_pools.map(|(key, name)| in_pool(key, name, &self.ignored, now));
        let objects = graph.into_iter().flat_map(|partition| partition.objects);
        let mut found: Vec<Found> = in_pools.chain(objects.map(|object| in_graph(object, now))).collect();
        found.sort_by_key(|found| std::cmp::Reverse(found.waited));
        Ok((totals, found))
    }
}

/// The answer of `/debug/stuck`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StuckPage {
    /// Whether this replica is a standby, so that it does not process objects.
    pub standby: bool,
    /// The number of objects by reason that match namespace and type, including those beyond
    /// the limit.
    pub totals: BTreeMap<&'static str, usize>,
    /// The matching objects, the longest wait first.
    pub stuck: Vec<StuckItem>,
}

/// A stuck object, on `/debug/stuck`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StuckItem {
    /// The object.
    pub object: PrintedObject,
    /// The reason, as in the metrics.
    pub reason: &'static str,
    /// Since when it has been stuck.
    pub since: Timestamp,
    /// The time since then.
    pub waiting_seconds: f64,
    /// Failed attempts in a row; `null` if there is nothing to retry.
    pub attempts: Option<u32>,
    /// Seconds until the next retry; 0 if a worker processes it or it is queued, `null` if it
    /// waits for a change in the cluster.
    pub next_retry_seconds: Option<f64>,
    /// The last error, in the server's own words, or what the object waits for.
    pub message: String,
    /// Some of the dependents that block it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<PrintedObject>,
    /// What a person can do about it.
    pub hint: &'static str,
}

impl StuckItem {
    /// The same beside an explanation of the object, which says what is refused.
    pub fn beside(mut self, explanation: &mut Explanation) -> Self {
        let acts = matches!(explanation.outcome, Outcome::Goes | Outcome::LosesReferences);
        if acts && self.attempts.is_some() {
            let is_denied = self.reason == StuckReason::Denied.name();
            let fails = if is_denied { "and the API server refuses it" } else { "and that fails" };
            explanation.is_tried(fails, &self.message);
        }
        if self.reason == StuckReason::Unresolved.name() && !explanation.advice.is_empty() {
            self.hint = "what is advised above";
        }
        if [StuckReason::Held.name(), StuckReason::Blocked.name()].contains(&self.reason) {
            // An explanation does not point to itself.
            self.hint = "what is said above has to end first";
        }
        self
    }
}

/// What a person can do about objects that are stuck for this reason.
pub const fn hint(reason: StuckReason) -> &'static str {
    match reason {
        StuckReason::Conflict => {
            "another client keeps changing this object; if this continues, find out which"
        }
        StuckReason::Denied => {
            "allow the write in the role, webhook or policy that the message names; kube-gc retries automatically"
        }
        StuckReason::Failed => {
            "the request failed: see the message, and the type in /debug/monitors; kube-gc retries \
             automatically"
        }
        StuckReason::Throttled => {
            "the API server is overloaded (429); kube-gc retries after the time in the response"
        }
        StuckReason::Panicked => "a bug in kube-gc: please report the panic in the log",
        StuckReason::Unresolved => {
            "once the API of the owner answers (/debug/discovery shows what fails), the object may be deleted: a \
             restored owner has a new uid; without any owner references, no garbage collection deletes it"
        }
        StuckReason::NotObserved => {
            "the owner exists, but its monitor does not show it: see its type in /debug/monitors"
        }
        StuckReason::Blocked => {
            "look at the dependents that block it: they must be gone first, and most wait for the \
             finalizer of another controller"
        }
        StuckReason::Orphaning => {
            "its dependents are being released; if the message names a part of the API, make that available again \
             (see /debug/discovery and /debug/monitors)"
        }
        StuckReason::InvalidScope => {
            "no collector decides about it as long as it names an owner of a namespaced kind"
        }
        StuckReason::Braked => {
            "find out what causes so many deletions; /readyz?verbose shows why the brake is engaged, and a person must resume deletion"
        }
        StuckReason::Deferred => {
            "the API server is unreachable, or requests of this kind hang in this namespace, perhaps in a \
             webhook, or the owner may still be in admission (graph.birth_grace): see the message; kube-gc \
             retries automatically"
        }
        StuckReason::UnseenWrite => "see its type in /debug/monitors: the watch has not shown the last write",
        StuckReason::Held => {
            "not kube-gc, but others have to end it: /debug/stuck/causes names the finalizers, and \
             kube-gc explain says what to do"
        }
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

/// A stuck object, as the page shows it.
struct Found {
    /// Unless the object has left the graph in the meantime.
    identity: Option<Identity>,
    waited: Duration,
    item: StuckItem,
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

fn item(object: PrintedObject, reason: StuckReason, waited: Duration, now: SystemTime) -> StuckItem {
    StuckItem {
        object,
        reason: reason.name(),
        since: Timestamp(now.checked_sub(waited).unwrap_or(now)),
        waiting_seconds: waited.as_secs_f64(),
        attempts: None,
        next_retry_seconds: None,
        message: String::new(),
        blocked_by: Vec::new(),
        hint: hint(reason),
    }
}

fn in_pool(stuck: StuckKey, identity: Option<Identity>, ignored: &[GroupResource], now: SystemTime) -> Found {
    let StuckKey { key, reason, waited, failure, next_retry } = stuck;
    let object = identity.as_ref().map_or_else(|| (&key).into(), PrintedObject::from);
    let mut item = item(object, reason, waited, now);
    // A braked deletion waits for a person, not for a retry.
    let is_tried = failure.is_some() && reason != StuckReason::Braked;
    item.next_retry_seconds = is_tried.then_some(next_retry.as_secs_f64());
    (item.attempts, item.message) = match failure {
        Some((attempts, error)) => (Some(attempts), error.to_string()),
        None => (None, "its dependents are being released before its finalizer is removed".to_owned()),
    };
    let mut owner = identity.iter();
    if reason == StuckReason::NotObserved && owner.any(|of| ignored.contains(&of.resource.group_resource)) {
        item.message = "the collector ignores its type (`discovery.ignored`)".to_owned();
    }
    Found { identity, waited, item }
}

fn in_graph(stuck: StuckObject, now: SystemTime) -> Found {
    let StuckObject { object, waited, detail } = stuck;
    let mut item = item((&object).into(), StuckCause::from(&detail).into(), waited, now);
    item.message = match &detail {
        StuckDetail::Blocked { count, some } => {
            let names: Vec<String> = some.iter().map(ToString::to_string).collect();
            let among = if names.len() < *count { ", among them" } else { ":" };
            let what = if *count == 1 {
                "reference of a dependent blocks"
            } else {
                "references of dependents block"
            };
            item.blocked_by = some.iter().map(Into::into).collect();
            format!("{count} {what} it{among} {}", names.join(", "))
        }
        StuckDetail::InvalidScope { count, some } => {
            let names = some.iter().map(|OwnerReference { kind, name, uid, .. }| {
                format!("{} {} ({})", word(kind), word(name), uid.shown())
            });
            let names = listed(", ", *count, names);
            format!("it is cluster-scoped and names namespaced owners: {names}")
        }
        StuckDetail::UnseenWrite => {
            "it was written, and is evaluated again when the watch shows the result".to_owned()
        }
        StuckDetail::Held { by_finalizers: true } => {
            "it was deleted, and finalizers of others hold it".to_owned()
        }
        StuckDetail::Held { by_finalizers: false } => {
            "it was deleted, and what holds it is no finalizer in its metadata".to_owned()
        }
    };
    Found { identity: Some(object), waited, item }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_core::object::config_map;

    #[test]
    fn what_is_refused_waits_and_an_explanation_does_not_point_to_itself() {
        let beside = |reason, outcome| {
            let waited = Duration::from_secs(90);
            let mut item = item((&config_map("ns", "c", "u")).into(), reason, waited, SystemTime::now());
            item.attempts = (reason != StuckReason::Held).then_some(3);
            let mut explanation = Explanation { outcome, ..Explanation::default() };
            let hint = item.beside(&mut explanation).hint;
            assert!(!hint.contains("explain"), "{hint}");
            (explanation.outcome, explanation.verdict.contains("tries to do that, and "))
        };
        let (held, denied) = (StuckReason::Held, StuckReason::Denied);
        let (waits, goes) = (Outcome::Waits, Outcome::Goes);
        assert_eq!(beside(held, waits), (waits, false));
        assert_eq!(beside(denied, goes), (waits, true));
        assert_eq!(beside(denied, Outcome::Stays), (Outcome::Stays, false));
        for reason in
            [StuckReason::Failed, StuckReason::Throttled, StuckReason::Deferred, StuckReason::Panicked]
        {
            assert_eq!(beside(reason, goes), (waits, true));
        }
        assert_eq!(beside(held, goes), (goes, false));
    }
}
