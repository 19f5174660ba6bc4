//! Answers the HTTP pages about the running collector.

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};

use crate::actors::discovery::DiscoveryFailure;
use crate::actors::graph_handle::PartitionEnded;
use crate::api::{Api, ReplicaRole};
use crate::http::{
    CausesPage, CausesQuery, DecisionQuery, DecisionsPage, DisagreementView, Ended, ExplanationPage, Facts,
    FailingItem, FindQuery, Follow, FoundObject, FoundPage, GraphFormat, IdleQuery, IdleReport,
    Introspection, Latencies, LatencyHistogram, Leadership, MonitorStatus, NeighbourhoodPage, ObjectQuery,
    ObjectView, PlanPage, PlanRequest, QueueStatus, QueueSummary, Readiness, StuckPage, StuckQuery,
    SummaryPage, TextStream, Timestamp, Undiscovered,
};
use crate::introspect::decision_log::DecisionLog;
use crate::introspect::graph_export::{component, whole};
use crate::introspect::neighbourhoods::FollowedObject;
use crate::introspect::questions::Questions;
use crate::introspect::status::{CollectorStatus, counts};
use crate::telemetry::Exporter;
use crate::worker::comparison::Comparison;
use kube_gc_core::graph::dump::DumpFormat;
use kube_gc_core::object::{Key, Uid};
use kube_gc_core::text::LISTED;
use kube_gc_insight::State;

/// The maximum number of failing keys that the page of a queue names.
const FAILING: usize = 100;

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
}

impl CollectorIntrospection {
    /// Serves this status, this decision log and latencies of these metrics, with warnings about
    /// ignored types. The API server is asked sparingly for what the graph does not know.
    #[must_use]
    pub fn new(
        status: CollectorStatus,
        api: Api,
        decision_log: DecisionLog,
        exporter: Exporter,
        ignored: Vec<String>,
    ) -> Self {
        let questions = Questions::new(status.graph().clone(), api.clone());
        Self { status, questions, decision_log, exporter, api, ignored, since: Timestamp::now() }
    }

    fn monitor_statuses(&self) -> Vec<MonitorStatus> {
        let monitors = self.status.registry().all().into_iter();
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

    fn undiscovered_parts(&self) -> Vec<Undiscovered> {
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

    async fn queue_statuses(&self) -> Vec<QueueStatus> {
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
                    last_error: format!("{}: {error}", item.reason.as_str()),
                    next_retry_seconds: Some(item.next_retry.as_secs_f64()),
                });
            }
            queues.push(QueueStatus {
                name: queue.name().to_owned(),
                counts: counts(&status),
                adds_total: status.adds,
                retries_total: status.retries,
                oldest_ready_seconds: status.oldest_ready.map(|age| age.as_secs_f64()),
                longest_running_seconds: (status.processing > 0)
                    .then_some(status.longest_running.as_secs_f64()),
                failing,
            });
        }
        queues
    }

    /// The object of a key, with its name if the graph knows it.
    async fn object(&self, key: &Key) -> ObjectView {
        match self.status.graph().identify(key).await {
            Ok(Some(identity)) => ObjectView::from(&identity),
            Ok(None) | Err(_) => ObjectView::from(key),
        }
    }

    async fn found(&self, query: FindQuery) -> Result<FoundPage, PartitionEnded> {
        let (found, more) = self.questions.search(query.search, query.limit).await?;
        let found = found.into_iter().map(|(identity, deletion)| FoundObject {
            object: ObjectView::from(&identity),
            kind: identity.resource.kind.to_string(),
            state: State::from(deletion),
        });
        Ok(FoundPage { found: found.collect(), more })
    }

    async fn planned(&self, request: PlanRequest) -> Result<Option<PlanPage>, PartitionEnded> {
        let Some(root) = self.questions.find(&request.uid, request.resource.as_ref()).await? else {
            return Ok(None);
        };
        self.questions.plan(root, &request, self.status.brake()).await.map(Some)
    }

    async fn at_a_glance(&self) -> Result<SummaryPage, PartitionEnded> {
        let monitors = self.status.registry().all();
        let not_synced = monitors.iter().filter(|monitor| !monitor.synced);
        let partitions = self.status.partitions().await?;
        let (role, leader) = match self.status.gate().role().borrow().clone() {
            ReplicaRole::Alone => ("alone", None),
            ReplicaRole::Leading { .. } => ("leader", None),
            ReplicaRole::Standby { holder } => ("standby", holder.as_deref().map(str::to_owned)),
        };
        let queues = self.status.pools(0).await.into_iter().map(|(queue, status)| {
            let summary = QueueSummary {
                counts: counts(&status),
                oldest_ready_seconds: status.oldest_ready.map(|age| age.as_secs_f64()),
                longest_running_seconds: (status.processing > 0)
                    .then_some(status.longest_running.as_secs_f64()),
            };
            (queue.name().to_owned(), summary)
        });
        let stuck = self.status.stuck(&StuckQuery { limit: Some(1), ..StuckQuery::default() }).await?;
        let only_totals = DecisionQuery { limit: Some(1), ..DecisionQuery::default() };
        Ok(SummaryPage {
            synced: self.status.is_ready() && monitors.iter().all(|monitor| monitor.synced),
            types: monitors.len(),
            not_synced: not_synced
                .take(LISTED)
                .map(|monitor| monitor.resource.group_resource.to_string())
                .collect(),
            role,
            leader,
            brake: self.status.brake().warning(),
            objects: partitions.iter().map(|partition| partition.stats.nodes).sum(),
            references: partitions.iter().map(|partition| partition.stats.edges).sum(),
            decisions_total: self.decision_log.page(&only_totals).total,
            queues: queues.collect(),
            stuck: stuck.totals,
            latencies: Latencies {
                deletion_lag: self.exporter.deletion_lag().map(LatencyHistogram::from),
                requests: self.exporter.requests().map(LatencyHistogram::from),
            },
        })
    }

    async fn component_as_text(
        &self,
        uids: &[Uid],
        format: GraphFormat,
    ) -> Result<Option<String>, PartitionEnded> {
        let component = component(self.status.graph(), uids).await?;
        Ok((!component.nodes.is_empty()).then(|| component.written(language(format))))
    }
}

const fn language(format: GraphFormat) -> DumpFormat {
    match format {
        GraphFormat::Dot => DumpFormat::Dot,
        GraphFormat::Json => DumpFormat::Json,
    }
}

impl From<PartitionEnded> for Ended {
    fn from(_: PartitionEnded) -> Self {
        Self
    }
}

impl Introspection for CollectorIntrospection {
    fn monitors(&self) -> BoxFuture<'_, Vec<MonitorStatus>> {
        std::future::ready(self.monitor_statuses()).boxed()
    }

    fn undiscovered(&self) -> Vec<Undiscovered> {
        self.undiscovered_parts()
    }

    fn graph(&self, format: GraphFormat) -> TextStream {
        whole(self.status.graph().clone(), language(format)).map_err(Ended::from).boxed()
    }

    fn component(&self, uids: Vec<Uid>, format: GraphFormat) -> BoxFuture<'_, Result<Option<String>, Ended>> {
        async move { Ok(self.component_as_text(&uids, format).await?) }.boxed()
    }

    fn search(&self, query: FindQuery) -> BoxFuture<'_, Result<FoundPage, Ended>> {
        async move { Ok(self.found(query).await?) }.boxed()
    }

    fn neighbourhood(&self, query: ObjectQuery) -> BoxFuture<'_, Result<Option<NeighbourhoodPage>, Ended>> {
        async move { Ok(self.neighbourhood_of(&query).await?) }.boxed()
    }

    fn follow(&self, query: ObjectQuery) -> Box<dyn Follow> {
        Box::new(FollowedObject::new(self.clone(), query))
    }

    fn explain(&self, query: ObjectQuery) -> BoxFuture<'_, Result<Option<ExplanationPage>, Ended>> {
        async move { Ok(self.explanation_of(query).await?) }.boxed()
    }

    fn plan(&self, request: PlanRequest) -> BoxFuture<'_, Result<Option<PlanPage>, Ended>> {
        async move { Ok(self.planned(request).await?) }.boxed()
    }

    fn summary(&self) -> BoxFuture<'_, Result<SummaryPage, Ended>> {
        async move { Ok(self.at_a_glance().await?) }.boxed()
    }

    fn decisions(&self, query: &DecisionQuery) -> DecisionsPage {
        self.decision_log.page(query)
    }

    fn stuck(&self, query: StuckQuery) -> BoxFuture<'_, Result<StuckPage, Ended>> {
        async move { Ok(self.status.stuck(&query).await?) }.boxed()
    }

    fn causes(&self, query: CausesQuery) -> BoxFuture<'_, Result<CausesPage, Ended>> {
        async move { Ok(self.causes_of(query).await?) }.boxed()
    }

    fn idle(&self, query: IdleQuery) -> BoxFuture<'_, IdleReport> {
        async move { self.status.idleness(&query).await }.boxed()
    }

    fn queues(&self) -> BoxFuture<'_, Vec<QueueStatus>> {
        self.queue_statuses().boxed()
    }

    fn disagreements(&self) -> BoxFuture<'_, Option<Vec<DisagreementView>>> {
        async move {
            match self.status.comparison() {
                Some(comparison) => Some(comparison.disagreements(self.status.graph()).await),
                None => None,
            }
        }
        .boxed()
    }

    fn readiness(&self) -> Readiness {
        let status = self.status.discovery();
        let discovery = match (&status.last_error, status.discovered) {
            (_, true) => Ok(()),
            (Some(error), false) => Err(error.as_str()),
            (None, false) => Err("the first discovery has not ended yet"),
        };
        let undiscovered = self.undiscovered_parts();
        let role = self.status.gate().role().borrow().clone();
        Readiness::assess(&Facts {
            discovery,
            started: self.status.is_collecting(),
            since: self.since,
            monitors: &self.monitor_statuses(),
            // Before the first discovery, a failure is the reason why the collector is not ready.
            undiscovered: if status.discovered { &undiscovered } else { &[] },
            ignored: &self.ignored,
            compared: self.status.comparison().map(Comparison::compared),
            refused: self.api.refused_credentials().map(|(since, why)| (Timestamp(since), why)),
            brake: self.status.brake().warning().as_deref(),
            leadership: match &role {
                ReplicaRole::Alone => None,
                ReplicaRole::Leading { .. } => Some(Leadership::Leader),
                ReplicaRole::Standby { holder } => Some(Leadership::Standby { leader: holder.as_deref() }),
            },
        })
    }
}
