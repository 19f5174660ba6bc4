//! Answers the HTTP pages about the running collector.

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};

use crate::actors::discovery::DiscoveryFailure;
use crate::actors::graph_handle::PartitionEnded;
use crate::api::ReplicaRole;
use crate::http::{
    DecisionQuery, DecisionsPage, DisagreementView, Ended, Facts, FailingItem, GraphFormat, IdleQuery,
    IdleReport, Introspection, Leadership, MonitorStatus, ObjectView, QueueStatus, Readiness, StuckPage,
    StuckQuery, TextStream, Timestamp, Undiscovered,
};
use crate::introspect::decision_log::DecisionLog;
use crate::introspect::graph_export::{component, whole};
use crate::introspect::status::{CollectorStatus, counts};
use crate::worker::comparison::Comparison;
use kube_gc_core::graph::dump::DumpFormat;
use kube_gc_core::object::{Key, Uid};

/// The maximum number of failing keys that the page of a queue names.
const FAILING: usize = 100;

/// The running collector, as its pages show it.
#[derive(Clone, Debug)]
pub struct CollectorIntrospection {
    status: CollectorStatus,
    decision_log: DecisionLog,
    ignored: Vec<String>,
    since: Timestamp,
}

impl CollectorIntrospection {
    /// Serves this status and this decision log, with warnings about ignored types.
    #[must_use]
    pub fn new(status: CollectorStatus, decision_log: DecisionLog, ignored: Vec<String>) -> Self {
        Self { status, decision_log, ignored, since: Timestamp::now() }
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
                failing.push(FailingItem {
                    object: self.object(&item.key).await,
                    attempts: item.attempts,
                    since: ago(item.failing_for),
                    last_error: format!("{}: {}", item.reason.as_str(), item.error),
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

    fn decisions(&self, query: &DecisionQuery) -> DecisionsPage {
        self.decision_log.page(query)
    }

    fn stuck(&self, query: StuckQuery) -> BoxFuture<'_, Result<StuckPage, Ended>> {
        async move { Ok(self.status.stuck(&query).await?) }.boxed()
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
            brake: self.status.brake().warning().as_deref(),
            leadership: match &role {
                ReplicaRole::Alone => None,
                ReplicaRole::Leading { .. } => Some(Leadership::Leader),
                ReplicaRole::Standby { holder } => Some(Leadership::Standby { leader: holder.as_deref() }),
            },
        })
    }
}
