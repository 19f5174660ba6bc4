//! Answers the HTTP pages about the running collector.

use std::time::{Duration, SystemTime};

use kube_gc_client::{Api, Definition, ErrorClass, ReplicaRole};
use kube_gc_controller::actors::discovery::DiscoveryFailure;
use kube_gc_controller::actors::graph_handle::PartitionEnded;
use kube_gc_controller::actors::pool::PoolStatus;
use kube_gc_controller::worker::comparison::Comparison;
use kube_gc_core::object::{GroupResource, Key};
use kube_gc_core::text::{LISTED, bounded};
use kube_gc_insight::{State, Unseen};
use kube_gc_observe::readiness::Readiness;
use kube_gc_observe::telemetry::{Exporter, PrintedObject, Timestamp, names};

use super::decision_log::DecisionLog;
use super::idle::{Sought, not_watched};
use super::queries::{FindQuery, IdleQuery, StuckQuery};
use super::questions::Questions;
use super::readiness::{Facts, assess};
use super::search::{no_type, readings, searched};
use super::status::{CollectorStatus, counts};
use super::view::{
    FailingItem, FoundObject, FoundPage, IdleReport, Latencies, MonitorStatus, QueueStatus, QueueSummary,
    SummaryPage, Undiscovered,
};

/// The maximum number of failing keys that the page of a queue names.
const FAILING: usize = 100;

/// How long a question waits for discovery.
const DISCOVERY: Duration = Duration::from_secs(5);

/// The running collector, as its pages show it.
#[derive(Clone, Debug)]
pub struct CollectorIntrospection {
    pub(super) status: CollectorStatus,
    pub(super) questions: Questions,
    pub(super) decision_log: DecisionLog,
    exporter: Exporter,
    api: Api,
    ignored: Vec<String>,
    since: Timestamp,
    /// The API server, as the page names it.
    pub server: Option<String>,
}

impl CollectorIntrospection {
    /// Serves this status, this decision log and latencies of these metrics, with warnings about
    /// ignored types. The API server is asked sparingly for what the graph does not know.
    pub fn new(
        status: CollectorStatus,
        api: Api,
        decision_log: DecisionLog,
        exporter: Exporter,
        ignored: Vec<String>,
    ) -> Self {
        let questions = Questions::new(status.clone(), api.clone());
        let since = Timestamp::now();
        Self { status, questions, decision_log, exporter, api, ignored, since, server: None }
    }

    /// Every monitor, ordered by group and resource.
    pub fn monitors(&self) -> Vec<MonitorStatus> {
        let monitors = self.status.registry.all().into_iter();
        monitors
            .map(|monitor| MonitorStatus {
                group: monitor.resource.group_resource.group.to_string(),
                version: monitor.resource.version.to_string(),
                resource: monitor.resource.group_resource.resource.to_string(),
                synced: monitor.synced,
                since: Timestamp(monitor.since),
                last_error: monitor.last_error,
                failing_since: monitor.failing_since.map(Timestamp),
            })
            .collect()
    }

    /// The object of a key, with its name if the graph knows it.
    async fn object(&self, key: &Key) -> PrintedObject {
        match self.status.graph.ask_about(key, |graph, key, _| graph.identify(key)).await {
            Ok(Some(identity)) => PrintedObject::from(&identity),
            Ok(None) | Err(_) => PrintedObject::from(key),
        }
    }

    /// The parts of the API that cannot be discovered.
    pub fn undiscovered(&self) -> Vec<Undiscovered> {
        let failing = self.status.discovery().failing.into_iter();
        failing
            .map(|DiscoveryFailure { failure, since, is_logged: _ }| Undiscovered {
                group: failure.group.into(),
                version: failure.version.map(Into::into),
                since: Timestamp(since),
                last_error: failure.error,
            })
            .collect()
    }

    /// Objects that a person may mean, the best first, and what was deleted lately.
    pub async fn search(&self, query: FindQuery) -> Result<FoundPage, PartitionEnded> {
        let limit = query.limit;
        let served = self.status.discovery().discovered;
        let type_named = |name: &str| Some(served.as_ref()?.type_named(name)?.group_resource.clone());
        let readings = readings(query, type_named);
        let mut searched = readings.first().map(searched).unwrap_or_default();
        let unserved = no_type(&readings, type_named);
        searched.extend(unserved.map(|name| format!(" (the server doesn't have a resource type {name:?})")));
        let deleted: Vec<_> = readings.iter().map(|reading| self.decision_log.deleted(reading)).collect();
        let (first, found, more) = self.questions.search(readings, limit).await?;
        let keys: Vec<Key> = found.iter().map(|(identity, _)| identity.key()).collect();
        let shown = self.status.graph.show(&keys).await?.into_iter();
        let states = shown.map(|shown| shown.map_or(State::Absent, |facts| facts.deletion_state().into()));
        let objects = found.iter().zip(states);
        let objects = objects.map(|((identity, _), state)| FoundObject::new(identity, state, None));
        let mut page = FoundPage { found: objects.collect(), more, searched };
        for (place, mut gone) in deleted.into_iter().enumerate().take(first.map_or(usize::MAX, |at| at + 1)) {
            gone.truncate(limit);
            gone.retain(|(identity, _)| !found.iter().any(|(known, _)| known == identity));
            let keys: Vec<Key> = gone.iter().map(|(identity, _)| identity.key()).collect();
            let still_there = self.status.graph.show(&keys).await?;
            // It may wait for finalizers.
            let gone = gone.into_iter().zip(still_there).filter(|(_, shown)| shown.is_none());
            let gone = gone.map(|((identity, at), _)| FoundObject::new(&identity, State::Absent, Some(at)));
            let gone: Vec<_> = gone.collect();
            if first == Some(place) {
                page.found.extend(gone);
            } else if !gone.is_empty() {
                return Ok(FoundPage { found: gone, more: false, ..page });
            }
        }
        Ok(page)
    }

    /// The collector at a glance.
    pub async fn at_a_glance(&self) -> Result<SummaryPage, PartitionEnded> {
        let monitors = self.status.registry.all();
        let not_synced = monitors.iter().filter(|monitor| !monitor.synced);
        let partitions = self.status.partitions().await?;
        let (role, leader) = match self.status.gate.role().borrow().clone() {
            ReplicaRole::Alone => ("alone", None),
            ReplicaRole::Leading { .. } => ("leader", None),
            ReplicaRole::Standby { holder } => ("standby", holder.as_deref().map(str::to_owned)),
        };
        let queues = self.status.pools(0).await.into_iter();
        let queues = queues.map(|(queue, status)| (queue.name().to_owned(), at_present(&status)));
        let stuck = self.status.stuck(&StuckQuery { limit: Some(1), ..StuckQuery::default() }).await?;
        let discovery = self.status.discovery();
        let undiscovered = discovery.failing.iter().map(|failing| failing.failure.unseen());
        let unwatched = monitors.iter().filter_map(|monitor| {
            let why = monitor.last_error.as_deref()?;
            Some(Unseen { what: monitor.resource.group_resource.to_string(), why: bounded(why) })
        });
        Ok(SummaryPage {
            server: self.server.clone(),
            version: env!("CARGO_PKG_VERSION"),
            dry_run: self.status.gate.is_dry_run(),
            finishes_namespaces: self.status.registry.terminating().are_wanted(),
            not_answering: undiscovered.chain(unwatched).take(LISTED).collect(),
            synced: self.status.is_ready() && monitors.iter().all(|monitor| monitor.synced),
            types: monitors.len(),
            not_synced: not_synced
                .take(LISTED)
                .map(|monitor| monitor.resource.group_resource.to_string())
                .collect(),
            role,
            leader,
            brake: self.status.brake.warning(),
            objects: partitions.iter().map(|partition| partition.stats.nodes).sum(),
            references: partitions.iter().map(|partition| partition.stats.edges).sum(),
            decisions_total: self.decision_log.last().0,
            queues: queues.collect(),
            stuck: stuck.totals,
            latencies: Latencies {
                deletion_lag: self.exporter.distribution(&names::DELETION_LAG),
                requests: self.exporter.distribution(&names::REQUEST_DURATION),
            },
        })
    }

    /// Whether any work is left.
    pub async fn idle(&self, query: IdleQuery) -> IdleReport {
        let mut unserved = None;
        for (resource, _) in &query.seen {
            if self.status.sought(resource) == Sought::Unserved && self.is_unserved(resource).await {
                unserved = Some(not_watched(resource));
            }
        }
        let report = self.status.idleness(&query).await;
        IdleReport { unknown: unserved.or(report.unknown), ..report }
    }

    /// Whether nobody serves a type that the last discovery has not shown. It may have been created a moment
    /// ago, and an API server may serve it a little before discovery shows it.
    async fn is_unserved(&self, resource: &GroupResource) -> bool {
        self.questions.pace.acquire().await;
        // The watch shows a CRD, too, and then discovery runs anyway.
        let is_undefined = match self.api.is_defined(&Definition::Crd(resource.clone())).await {
            Ok(is_defined) => !is_defined,
            Err(error) => matches!(error.class, ErrorClass::NotServed | ErrorClass::Refused),
        };
        is_undefined
            && tokio::time::timeout(DISCOVERY, self.status.rediscovered()).await.is_ok()
            && self.status.sought(resource) == Sought::Unserved
    }

    /// Every work queue.
    pub async fn queues(&self) -> Vec<QueueStatus> {
        let now = SystemTime::now();
        let ago = |duration: Duration| Timestamp(now.checked_sub(duration).unwrap_or(now));
        let mut queues = Vec::new();
        for (queue, status) in self.status.pools(FAILING).await {
            let mut failing = Vec::new();
            for item in &status.failing {
                let (attempts, error) = item.failure.clone().unwrap_or_default();
                failing.push(FailingItem {
                    object: self.object(&item.key).await,
                    attempts,
                    since: ago(item.waited),
                    last_error: format!("{}: {error}", item.reason.name()),
                    next_retry_seconds: Some(item.next_retry.as_secs_f64()),
                });
            }
            queues.push(QueueStatus {
                name: queue.name().to_owned(),
                now: at_present(&status),
                adds_total: status.adds,
                retries_total: status.retries,
                failing,
            });
        }
        queues
    }

    /// Whether the collector can work. This is not a future, because probes must be answered even if an
    /// actor is busy.
    pub fn readiness(&self) -> Readiness {
        let status = self.status.discovery();
        let discovery = match (&status.discovered, &status.last_error) {
            (Some(_), _) => Ok(()),
            (None, Some(error)) => Err(error.as_str()),
            (None, None) => Err("the first discovery has not ended yet"),
        };
        let undiscovered = self.undiscovered();
        let leadership = match &*self.status.gate.role().borrow() {
            ReplicaRole::Alone => None,
            ReplicaRole::Leading { .. } => Some("leader".to_owned()),
            ReplicaRole::Standby { holder: Some(leader) } => Some(format!("standby of {leader}")),
            ReplicaRole::Standby { holder: None } => Some("standby, leader unknown".to_owned()),
        };
        assess(&Facts {
            discovery,
            started: self.status.is_collecting(),
            since: self.since,
            monitors: &self.monitors(),
            // Before the first discovery, a failure is the reason why the collector is not ready.
            undiscovered: if discovery.is_ok() { &undiscovered } else { &[] },
            ignored: &self.ignored,
            compared: self.status.comparison.as_ref().map(Comparison::compared),
            outage: self.api.outage(),
            refused: self.api.refused_credentials().map(|(since, why)| (Timestamp(since), why)),
            brake: self.status.brake.warning().as_deref(),
            namespaces: self.status.registry.hindrance().borrow().clone(),
            leadership,
        })
    }
}

fn at_present(status: &PoolStatus) -> QueueSummary {
    let sample = &status.sample;
    QueueSummary {
        counts: counts(status),
        oldest_ready_seconds: status.oldest_ready.map(|age| age.as_secs_f64()),
        longest_running_seconds: (sample.processing > 0).then_some(sample.longest_running.as_secs_f64()),
    }
}
