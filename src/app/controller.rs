//! The actors of a collector, and which of them know each other.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context};
use futures::future::join;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::process::no_threads;
use crate::introspect::status::{CollectorStatus, Sampler};
use crate::introspect::stuck::warn;
use crate::introspect::{CollectorIntrospection, DecisionLog};
use kube_gc_client::{Api, EventRecorder};
use kube_gc_config::Settings;
use kube_gc_controller::actors::absent_owner_cache::AbsentOwnerCache;
use kube_gc_controller::actors::discovery::{Discovery, DiscoveryContext, DiscoverySettings};
use kube_gc_controller::actors::graph::{EffectSinks, GraphActor, Introduce};
use kube_gc_controller::actors::graph_handle::GraphHandle;
use kube_gc_controller::actors::graph_queue::GraphQueue;
use kube_gc_controller::actors::lifecycle::{Lifecycle, LifecycleContext, Phase};
use kube_gc_controller::actors::messages::StopMonitors;
use kube_gc_controller::actors::metrics::MetricsActor;
use kube_gc_controller::actors::monitor::MonitorContext;
use kube_gc_controller::actors::pool::{Close, Enqueue, Pool, PoolRecipients};
use kube_gc_controller::actors::registry::{Registry, RoundTypes};
use kube_gc_controller::actors::supervision::{GraphThreads, Placement, Threads};
use kube_gc_controller::worker::brake::{self, Brake};
use kube_gc_controller::worker::comparison::{Comparison, ComparisonContext, Deciders, compare};
use kube_gc_controller::worker::context::WorkContext;
use kube_gc_controller::worker::decision::{DecisionLines, DecisionObserver, DecisionRecorder, Summaries};
use kube_gc_controller::worker::delete::{Births, DeleteWork, LARGE_WORKERS, large_backoff};
use kube_gc_controller::worker::namespace_check::NamespaceCheck;
use kube_gc_controller::worker::namespaces::{FinishContext, finish};
use kube_gc_controller::worker::orphan::{OrphanWork, Releases, Rounds};
use kube_gc_core::brake::Limits;
use kube_gc_core::graph::{Partition, Sharding};
use kube_gc_core::mailbox::Backoff;
use kube_gc_core::object::{Catalog, HashSeed};
use kube_gc_observe::telemetry::{Exporter, Queue};

/// How the collector is to be run.
#[derive(Clone, Debug)]
pub struct ControllerSettings {
    /// Workers of the delete pool.
    pub delete_workers: usize,
    /// Workers of the orphan pool.
    pub orphan_workers: usize,
    /// Dependents that these release at a time, all together.
    pub releases: usize,
    /// Dependents of one owner that these take from the graph at a time.
    pub orphan_page: usize,
    /// Partitions for namespaced objects; cluster-scoped ones have one of their own.
    pub partitions: NonZeroU16,
    /// Where the partitions and the monitors run.
    pub placement: Placement,
    /// How many absent (and orphaned) owners are remembered.
    pub absent_owners: usize,
    /// How old a dependent must be before a GET that does not find its owner counts.
    pub birth_grace: Duration,
    /// Retries of both pools.
    pub backoff: Backoff,
    /// Discovery and monitors.
    pub discovery: DiscoverySettings,
    /// How long the pools wait for the monitors at the start.
    pub sync_timeout: Duration,
    /// Further observers of every decision.
    pub decisions: Vec<Arc<dyn DecisionObserver>>,
    /// Which decisions have a line of their own in the log.
    pub decision_lines: DecisionLines,
    /// How long a part of the API that cannot be listed holds owners that orphan their dependents.
    pub orphan_wait: Duration,
    /// Whether to empty and finalize terminating namespaces, and for how long looks must have shown
    /// nothing before.
    pub finish_namespaces: Option<Duration>,
    /// In a dry run: how long another collector may take for what would have been done.
    pub compare_after: Duration,
    /// How long an object is stuck before a Warning event about it; `None` for no such events.
    pub warn_after: Option<Duration>,
    /// How much may be deleted.
    pub brake: Limits,
    /// The seed of all hash tables of names and uids from the cluster. It is a secret: with it, an
    /// attacker could make them slow.
    pub hash_seed: HashSeed,
}

/// A running collector.
#[derive(Debug)]
pub struct Controller {
    status: CollectorStatus,
    discovery: Addr<Discovery>,
    threads: Threads,
    summaries: Summaries,
    ending: CancellationToken,
}

impl Controller {
    /// Starts all actors. To be called on the system's arbiter; or, with
    /// [`Placement::CallersThread`], in a `LocalSet` of any runtime, and dropping that
    /// `LocalSet` ends them as a crash of the process would.
    ///
    /// # Errors
    /// When the operating system gives no thread for a partition.
    pub fn start(api: Api, settings: ControllerSettings, exporter: Exporter) -> std::io::Result<Self> {
        let ending = CancellationToken::new();
        let threads = Threads::default();
        let absent_owners = Arc::new(AbsentOwnerCache::new(settings.absent_owners));
        let registry = Registry::default();
        let graph_queue = GraphQueue::new();
        let (event_recorder, recording) = EventRecorder::new(api.clone(), ending.clone());
        background("event recorder", recording, &ending);

        // The graph puts keys into the pools and the workers ask the graph: the pools
        // have their addresses before they have their workers.
        let (delete_context, orphan_context) = (Context::new(), Context::new());
        let (delete, orphan) = (delete_context.address(), orphan_context.address());
        let sinks = EffectSinks {
            delete: delete.clone().recipient::<Enqueue>(),
            orphan: orphan.clone().recipient::<Enqueue>(),
            absent_owners: Arc::clone(&absent_owners),
            event_recorder: event_recorder.clone(),
            restore_fence: Some(api.restore_fence().clone()),
        };
        if settings.finish_namespaces.is_some() {
            registry.terminating().want();
        }
        let sharding = Sharding::new(settings.partitions, settings.hash_seed);
        let graph = start_partitions(&threads, &settings.placement, sharding, &sinks)?;
        let comparison = api.gate().is_dry_run().then(|| Comparison::new(settings.compare_after));
        let mut decisions = settings.decisions;
        decisions.extend(comparison.clone().map(|comparison| Arc::new(comparison) as Arc<_>));
        let brake = Brake::new(settings.brake);
        let (summaries, summing) = Summaries::new(settings.decision_lines, ending.clone());
        background("decision summaries", summing, &ending);
        let recorder = DecisionRecorder::new(api.clone(), decisions, summaries.clone());
        let (namespace_check, checking) = NamespaceCheck::new(graph.clone(), event_recorder, ending.clone());
        background("namespace check", checking, &ending);
        let context = WorkContext {
            api: api.clone(),
            graph: graph.clone(),
            absent_owners: Arc::clone(&absent_owners),
            registry: registry.clone(),
            births: Births::new(settings.birth_grace),
            brake: brake.clone(),
            releases: Releases::new(settings.releases),
            decisions: recorder,
            namespace_check,
        };
        let held = vec![delete.clone().recipient()];
        let telling = brake::tell(brake.clone(), api.clone(), held, ending.clone());
        background("brake", telling, &ending);
        let (types, round_types) = watch::channel(Arc::new(RoundTypes::default()));
        let rounds = Rounds::new(context.clone(), round_types, settings.orphan_wait);
        let deciders = Deciders {
            delete: Arc::new(DeleteWork::new(context.clone())),
            orphan: Arc::new(OrphanWork::new(context, rounds).paged(settings.orphan_page)),
        };
        let work = Arc::clone(&deciders.delete);
        let pool = Pool::new(work, settings.delete_workers, settings.backoff, settings.hash_seed);
        let backoff = large_backoff(settings.backoff);
        delete_context.run(pool.and(Queue::AttemptToDeleteLarge, LARGE_WORKERS, backoff));
        let work = Arc::clone(&deciders.orphan);
        orphan_context.run(Pool::new(work, settings.orphan_workers, settings.backoff, settings.hash_seed));

        let (status, discovery_status) = watch::channel(Discovery::initial_status());
        let (phase, phases) = watch::channel(Phase::Syncing);
        let gate = api.gate().clone();
        // Discovery and Lifecycle tell each other something: the one has its address before it
        // runs.
        let lifecycle = Context::new();
        let pools: Vec<PoolRecipients> = vec![(&delete).into(), (&orphan).into()];
        let monitors = MonitorContext {
            api: api.clone(),
            graph: graph.clone(),
            graph_queue: graph_queue.clone(),
            registry: registry.clone(),
            placement: settings.placement,
            restored: lifecycle.address().recipient(),
        };
        let progress = lifecycle.address().recipient();
        let context = DiscoveryContext { monitors, pools: pools.clone(), progress };
        let discovery = Discovery::new(context, settings.discovery, status, types).start();
        let context = LifecycleContext {
            api: api.clone(),
            graph: graph.clone(),
            absent_owners: Arc::clone(&absent_owners),
            registry: registry.clone(),
            discovery: discovery.clone().recipient(),
            stop_monitors: discovery.clone().recipient(),
            pools,
        };
        lifecycle.run(Lifecycle::new(context, settings.sync_timeout, phase));
        if let Some(comparison) = comparison.clone() {
            let (graph, registry, phase) = (graph.clone(), registry.clone(), phases.clone());
            let means = ComparisonContext { graph, registry, phase, deciders };
            background("comparison", compare(comparison, means, ending.clone()), &ending);
        }
        if let Some(quiet) = settings.finish_namespaces {
            let (api, registry, brake) = (api.clone(), registry.clone(), brake.clone());
            let context = FinishContext { api, registry, brake, phase: phases.clone(), quiet };
            background("namespaces", finish(context, ending.clone()), &ending);
        }
        let status = CollectorStatus {
            graph,
            graph_queue,
            delete,
            orphan,
            registry,
            absent_owners,
            brake,
            discovery: discovery_status,
            phase: phases,
            gate,
            comparison,
        };
        if let Some(after) = settings.warn_after {
            let warning = warn(status.clone(), api, after, ending.clone());
            background("stuck events", warning, &ending);
        }
        // Like the actors, it ends with the thread.
        MetricsActor(Sampler::new(status.clone(), exporter)).start();
        Ok(Self { status, discovery, threads, summaries, ending })
    }

    /// Starts a collector by the settings of a process, and makes its read models.
    ///
    /// # Errors
    /// When the operating system gives no thread for a partition.
    pub fn configured(
        api: Api,
        settings: &Settings,
        placement: Placement,
        mut decisions: Vec<Arc<dyn DecisionObserver>>,
        exporter: Exporter,
    ) -> Result<(Self, CollectorIntrospection), Error> {
        let decision_log = DecisionLog::new(settings.debug.decisions);
        decisions.push(Arc::new(decision_log.clone()));
        let controller = super::settings::controller(settings, placement, decisions);
        let controller = Self::start(api.clone(), controller, exporter.clone()).map_err(no_threads)?;
        let (status, ignored) = (controller.status.clone(), settings.ignored_type_warnings());
        let introspection = CollectorIntrospection::new(status, api, decision_log, exporter, ignored);
        Ok((controller, introspection))
    }

    /// What can be asked of it.
    pub const fn status(&self) -> &CollectorStatus {
        &self.status
    }

    /// Ends it: no more work is handed out, what is being worked on may finish
    /// within the grace period, then the watches are closed. True when everything
    /// had finished by then.
    pub async fn stop(self, grace: Duration) -> bool {
        let CollectorStatus { delete, orphan, .. } = &self.status;
        let finish = join(delete.send(Close), orphan.send(Close));
        let finished = tokio::time::timeout(grace, finish).await.is_ok();
        self.summaries.close();
        // An error means that discovery has ended already.
        let _ = self.discovery.send(StopMonitors).await;
        self.ending.cancel();
        self.threads.ending();
        finished
    }
}

/// One Graph actor for each partition.
fn start_partitions(
    threads: &Threads,
    placement: &Placement,
    sharding: Sharding,
    sinks: &EffectSinks,
) -> std::io::Result<GraphHandle> {
    let catalog = Arc::new(Catalog::default());
    let mut partitions = Vec::new();
    for id in sharding.all() {
        let thread = match placement.graph() {
            GraphThreads::Each => Some(threads.start(&format!("graph partition {}", id.0))?),
            GraphThreads::Callers => None,
        };
        let partition = Partition::new(id, sharding, Arc::clone(&catalog));
        partitions.push(GraphActor::start(id, partition, sinks.clone(), thread.as_ref()));
    }
    for partition in &partitions {
        partition.do_send(Introduce(partitions.clone()));
    }
    Ok(GraphHandle::new(sharding, partitions))
}

/// Starts a task that should run as long as the process, and notices when it ends.
fn background(
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
    ending: &CancellationToken,
) {
    let (task, ending) = (tokio::spawn(work), ending.clone());
    tokio::spawn(async move {
        if let Err(error) = task.await
            && !ending.is_cancelled()
        {
            tracing::error!(task = name, %error, "a background task has stopped; restart kube-gc");
        }
    });
}
