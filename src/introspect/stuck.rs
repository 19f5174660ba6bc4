//! Stuck objects, collected from the pools and the graph, and Warning events about those that stay stuck,
//! for people who look at them with kubectl.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use actix::MailboxError;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::queries::{DEFAULT_LIMIT, StuckQuery};
use super::status::CollectorStatus;
use super::view::{StuckItem, StuckPage, hint};
use kube_gc_client::{Api, ErrorClass, ReplicaRole};
use kube_gc_controller::actors::graph_handle::PartitionEnded;
use kube_gc_controller::actors::pool::{AskStuck, StuckKey, StuckKeys};
use kube_gc_core::graph::{StuckCause, StuckCount, StuckDetail, StuckFilter, StuckObject, StuckObjects};
use kube_gc_core::object::{GroupResource, Identity, Key, OwnerReference, Uid};
use kube_gc_core::text::{listed, word};
use kube_gc_observe::telemetry::{ObjectView, Structured, StuckReason, Timestamp};

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
        Ok(self.find_stuck(AskStuck { older: StuckReason::OLD, ..AskStuck::default() }).await?.0)
    }

    /// The stuck objects, with reasons.
    ///
    /// # Errors
    /// When a part of the collector has ended.
    pub async fn stuck(&self, query: &StuckQuery) -> Result<StuckPage, PartitionEnded> {
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
        let StuckQuery { namespace, resource, reason, older, .. } = query.clone();
        let older = older.unwrap_or(StuckReason::OLD);
        let ask = AskStuck { limit, per_namespace: None, namespace, resource, only: reason, older };
        let (totals, found) = self.find_stuck(ask).await?;
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
        let ask = AskStuck {
            limit,
            per_namespace: Some(per_namespace),
            only: Some(reason),
            older,
            ..AskStuck::default()
        };
        let (_, found) = self.find_stuck(ask).await?;
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
    async fn find_stuck(&self, ask: AskStuck) -> Result<(Tallies, Vec<Found>), PartitionEnded> {
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
            patience: ask.older,
        };
        let delete: Result<_, MailboxError> = self.delete.send(ask.clone()).await;
        let orphan: Result<_, MailboxError> = self.orphan.send(ask).await;
        let (pools, graph) = (vec![delete?, orphan?], self.graph.waiting(&filter).await?);
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

fn item(object: ObjectView, reason: StuckReason, waited: Duration, now: SystemTime) -> StuckItem {
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
    let object = identity.as_ref().map_or_else(|| (&key).into(), ObjectView::from);
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
    let mut item = item((&object).into(), detail.cause().into(), waited, now);
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
        StuckDetail::Held { .. } if &*object.resource.kind == "Namespace" => {
            "it was deleted; `explain` says what is left in it, or holds it".to_owned()
        }
        StuckDetail::Held { by_finalizers: false } => {
            "it was deleted, and is still there without a finalizer of others".to_owned()
        }
    };
    Found { identity: Some(object), waited, item }
}

/// The longest time between two looks at what is stuck.
const LOOKS_EVERY: Duration = Duration::from_secs(30);
/// The shortest time between two looks.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// When an event about the same object is sent again. By default, an API server keeps events for
/// an hour.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// The most objects that are looked at for each reason.
const LOOKED_AT: usize = 1000;
/// The most of these in one namespace, so that no tenant hides the objects of another.
const IN_A_NAMESPACE: usize = 16;
/// The most events after one look.
const AT_ONCE: usize = 20;

/// What people see as the reason of the event, and the beginning of its message.
const fn wording(reason: StuckReason) -> Option<(&'static str, &'static str)> {
    match reason {
        StuckReason::Blocked => Some(("ForegroundDeletionBlocked", "its foreground deletion has to wait")),
        StuckReason::Denied => {
            Some(("GarbageCollectionDenied", "the API server denies a write of the garbage collector"))
        }
        StuckReason::Unresolved | StuckReason::NotObserved => {
            Some(("OwnerRefUnresolved", "the garbage collector cannot resolve an owner of this object"))
        }
        StuckReason::Conflict
        | StuckReason::Failed
        | StuckReason::Throttled
        | StuckReason::Panicked
        | StuckReason::Orphaning
        | StuckReason::InvalidScope
        | StuckReason::UnseenWrite
        | StuckReason::Braked
        | StuckReason::Deferred
        | StuckReason::Held => None,
    }
}

/// Sends warning events until the collector ends. Objects count that have been stuck for `after`.
pub async fn warn(collector: CollectorStatus, api: Api, after: Duration, ending: CancellationToken) {
    let mut looks = interval(after.clamp(SHORTEST_PAUSE, LOOKS_EVERY));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut recent = RecentWarnings::default();
    let warning = async {
        loop {
            looks.tick().await;
            if look(&collector, &api, after, &mut recent).await.is_err() {
                // A part of the collector has ended, and the process is about to.
                return;
            }
        }
    };
    ending.run_until_cancelled(warning).await;
}

async fn look(
    collector: &CollectorStatus,
    api: &Api,
    after: Duration,
    recent: &mut RecentWarnings,
) -> Result<(), PartitionEnded> {
    if collector.is_standby() {
        return Ok(());
    }
    let mut stuck = Vec::new();
    for reason in StuckReason::ALL.into_iter().filter(|reason| wording(*reason).is_some()) {
        let named = collector.named_stuck(reason, LOOKED_AT, IN_A_NAMESPACE, StuckReason::OLD).await?;
        stuck.extend(named.into_iter().filter(|object| object.waited >= after));
    }
    for object in recent.due(stuck, Instant::now()) {
        if !send(api, &object).await {
            recent.forget(&object);
        }
    }
    Ok(())
}

/// Sends the event. False if it could not be recorded now, and may be later.
async fn send(api: &Api, stuck: &NamedStuck) -> bool {
    let Some((reason, beginning)) = wording(stuck.reason) else { return true };
    let message = format!("{beginning}: {}", stuck.message);
    let Err(error) = api.warn(&stuck.object, reason, &message).await else { return true };
    let object = Structured::object(&stuck.object);
    match error.class {
        ErrorClass::DryRun => true,
        ErrorClass::GateClosed
        | ErrorClass::Transient
        | ErrorClass::Throttled { .. }
        | ErrorClass::Deferred { .. } => {
            tracing::debug!(object = object.logged(), %error, "cannot create the Warning event about this object; kube-gc retries");
            false
        }
        _ => {
            tracing::warn!(
                object = object.logged(),
                %error,
                "cannot create the Warning event about this object; check that kube-gc may create events"
            );
            true
        }
    }
}

/// The events that were sent about objects that are still stuck.
#[derive(Debug, Default)]
struct RecentWarnings(HashMap<(Uid, StuckReason), Instant>);

impl RecentWarnings {
    /// The objects about which an event is due, those that are stuck longest first. What is no
    /// longer stuck is forgotten, which bounds the memory.
    fn due(&mut self, mut stuck: Vec<NamedStuck>, now: Instant) -> Vec<NamedStuck> {
        let before = std::mem::take(&mut self.0);
        stuck.sort_by(|a, b| b.waited.cmp(&a.waited).then_with(|| a.object.uid.cmp(&b.object.uid)));
        let mut due = Vec::new();
        for object in stuck {
            let key = Self::key(&object.object, object.reason);
            match before.get(&key) {
                Some(at) if now.saturating_duration_since(*at) < AGAIN_AFTER => {
                    self.0.insert(key, *at);
                }
                Some(_) | None if due.len() < AT_ONCE => {
                    self.0.insert(key, now);
                    due.push(object);
                }
                Some(_) | None => {}
            }
        }
        due
    }

    fn forget(&mut self, stuck: &NamedStuck) {
        self.0.remove(&Self::key(&stuck.object, stuck.reason));
    }

    fn key(object: &Identity, reason: StuckReason) -> (Uid, StuckReason) {
        (object.uid.clone(), reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_core::object::config_map;

    fn stuck(number: usize, waited: u64) -> NamedStuck {
        NamedStuck {
            object: config_map("ns", &format!("object-{number}"), &format!("u{number}")),
            reason: StuckReason::Blocked,
            waited: Duration::from_secs(waited),
            message: "something".to_owned(),
        }
    }

    fn names(due: &[NamedStuck]) -> Vec<&str> {
        due.iter().map(|stuck| &*stuck.object.name).collect()
    }

    #[test]
    fn one_event_an_hour_is_due_about_each_object_and_reason() {
        let (mut recent, now) = (RecentWarnings::default(), Instant::now());
        let both = || vec![stuck(1, 10), stuck(2, 20)];
        assert_eq!(names(&recent.due(both(), now)), ["object-2", "object-1"]);
        assert!(recent.due(both(), now + AGAIN_AFTER / 2).is_empty());
        let other = NamedStuck { reason: StuckReason::Denied, ..stuck(1, 10) };
        assert_eq!(recent.due(vec![other, stuck(1, 10)], now + AGAIN_AFTER / 2).len(), 1);
        assert_eq!(names(&recent.due(both(), now + AGAIN_AFTER)), ["object-2", "object-1"]);
    }

    #[test]
    fn few_events_are_due_at_a_time_and_the_others_follow() {
        let (mut recent, now) = (RecentWarnings::default(), Instant::now());
        let all = || (0..AT_ONCE + 3).map(|number| stuck(number, 10)).collect();
        assert_eq!(recent.due(all(), now).len(), AT_ONCE);
        assert_eq!(recent.due(all(), now).len(), 3);
        assert_eq!(recent.due(all(), now).len(), 0);
    }

    #[test]
    fn what_was_not_sent_is_due_again_and_what_is_done_is_forgotten() {
        let (mut recent, now) = (RecentWarnings::default(), Instant::now());
        recent.due(vec![stuck(1, 10)], now);
        recent.forget(&stuck(1, 10));
        assert_eq!(recent.due(vec![stuck(1, 10)], now).len(), 1);
        assert!(recent.due(Vec::new(), now).is_empty() && recent.0.is_empty());
        assert_eq!(recent.due(vec![stuck(1, 10)], now).len(), 1);
    }
}
