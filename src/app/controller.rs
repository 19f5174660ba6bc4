//! The actors of a collector, and which of them know each other.

use std::hash::{BuildHasher as _, RandomState};
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
use kube_gc_config::{Settings, available_cores};
use kube_gc_controller::actors::absent_owner_cache::AbsentOwnerCache;
use kube_gc_controller::actors::discovery::{Discovery, DiscoveryContext};
use kube_gc_controller::actors::graph::{EffectSinks, GraphActor};
use kube_gc_controller::actors::graph_handle::GraphHandle;
use kube_gc_controller::actors::graph_queue::GraphQueue;
use kube_gc_controller::actors::lifecycle::{Lifecycle, LifecycleContext, Phase};
use kube_gc_controller::actors::messages::StopMonitors;
use kube_gc_controller::actors::metrics::MetricsActor;
use kube_gc_controller::actors::monitor::MonitorContext;
use kube_gc_controller::actors::pool::{Close, Enqueue, Pool, PoolRecipients};
use kube_gc_controller::actors::registry::{Registry, RoundTypes};
use kube_gc_controller::actors::supervision::{Placement, Threads};
use kube_gc_controller::worker::WorkContext;
use kube_gc_controller::worker::brake::{self, Brake};
use kube_gc_controller::worker::comparison::{Comparison, ComparisonContext, compare};
use kube_gc_controller::worker::decision::{DecisionObserver, DecisionRecorder, Summaries};
use kube_gc_controller::worker::delete::{Births, DeleteWork, LARGE_WORKERS};
use kube_gc_controller::worker::namespace_check::NamespaceCheck;
use kube_gc_controller::worker::namespaces::{check_rights, finish};
use kube_gc_controller::worker::orphan::{OrphanWork, PAGE as ORPHAN_PAGE, Releases, Rounds};
use kube_gc_core::brake::Limits;
use kube_gc_core::graph::{Partition, Sharding};
use kube_gc_core::mailbox::Backoff;
use kube_gc_core::object::{Catalog, HashSeed};
use kube_gc_observe::telemetry::{Exporter, Queue};

/// What a process decides about its collector, beside the settings of users.
#[derive(Debug)]
pub struct Setup {
    /// Where the partitions and the monitors run.
    pub placement: Placement,
    /// Observers of every decision.
    pub decisions: Vec<Arc<dyn DecisionObserver>>,
    /// Dependents of one owner that orphan workers take from the graph at a time.
    pub orphan_page: usize,
    /// The seed of all hash tables of names and uids from the cluster. It is a secret: with it, an
    /// attacker could make them slow.
    pub hash_seed: HashSeed,
}

impl Setup {
    /// With a seed of its own for each process.
    pub fn new(placement: Placement, decisions: Vec<Arc<dyn DecisionObserver>>) -> Self {
        // The standard library takes its keys from the system's random numbers.
        let hash_seed = HashSeed::new(RandomState::new().hash_one(0));
        Self { placement, decisions, orphan_page: ORPHAN_PAGE, hash_seed }
    }
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
    /// the default [`Placement`], in a `LocalSet` of any runtime, and dropping that
    /// `LocalSet` ends them as a crash of the process would.
    ///
    /// # Errors
    /// When the operating system gives no thread for a partition.
    pub fn start(api: Api, settings: &Settings, setup: Setup, exporter: Exporter) -> std::io::Result<Self> {
        let Setup { placement, mut decisions, orphan_page, hash_seed } = setup;
        let backoff = Backoff { min: settings.retry.min, max: settings.retry.max };
        let ending = CancellationToken::new();
        let threads = Threads::default();
        let absent_owners = Arc::new(AbsentOwnerCache::new(settings.graph.absent_owner_capacity));
        let registry = Registry::default();
        let graph_queue = GraphQueue::default();
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
        if settings.finish_namespaces {
            registry.terminating().want();
        }
        let partitions = u16::try_from(settings.graph.partition_count(available_cores()));
        let partitions = partitions.ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN);
        let sharding = Sharding::new(partitions, hash_seed);
        let graph = start_partitions(&threads, &placement, sharding, &sinks)?;
        let is_dry_run = api.gate().is_dry_run();
        let comparison = is_dry_run.then(|| Comparison::new(settings.comparison.grace));
        decisions.extend(comparison.clone().map(|comparison| Arc::new(comparison) as Arc<_>));
        // A dry run deletes nothing.
        let brake = Brake::new(if is_dry_run { Limits::default() } else { settings.brake.limits() });
        let summaries = Summaries::new(settings.log.decisions);
        background("decision summaries", summaries.clone().run(), &ending);
        let recorder = DecisionRecorder::new(api.clone(), decisions, summaries.clone());
        let (namespace_check, checking) = NamespaceCheck::new(graph.clone(), event_recorder);
        background("namespace check", checking, &ending);
        let work_context = WorkContext {
            api: api.clone(),
            graph: graph.clone(),
            absent_owners: Arc::clone(&absent_owners),
            registry: registry.clone(),
            births: Births::new(settings.graph.birth_grace),
            brake: brake.clone(),
            releases: Releases::new(settings.workers.release),
            decisions: recorder,
            namespace_check,
        };
        let held = vec![delete.clone().recipient()];
        let telling = brake::tell(brake.clone(), api.clone(), held);
        background("brake", telling, &ending);
        let (types, round_types) = watch::channel(Arc::new(RoundTypes::default()));
        let rounds = Rounds::new(work_context.clone(), round_types, settings.discovery.orphan_wait);
        let delete_work = Arc::new(DeleteWork::new(work_context.clone()));
        let orphan_work = Arc::new(OrphanWork::new(work_context.clone(), rounds, orphan_page));
        let pool = Pool::new(Arc::clone(&delete_work), settings.workers.delete, backoff, hash_seed);
        delete_context.run(pool.and(Queue::AttemptToDeleteLarge, LARGE_WORKERS, backoff));
        let work = Arc::clone(&orphan_work);
        orphan_context.run(Pool::new(work, settings.workers.orphan, backoff, hash_seed));

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
            placement,
        };
        let progress = lifecycle.address().recipient();
        let (interval, ignored) = (settings.discovery.interval, settings.discovery.ignored.clone());
        let context = DiscoveryContext { monitors, pools: pools.clone(), progress, interval, ignored };
        let discovery = Discovery::new(context, status, types).start();
        let context = LifecycleContext {
            api: api.clone(),
            graph: graph.clone(),
            absent_owners: Arc::clone(&absent_owners),
            registry: registry.clone(),
            discovery: discovery.clone().recipient(),
            stop_monitors: discovery.clone().recipient(),
            pools,
        };
        lifecycle.run(Lifecycle::new(context, settings.startup.sync_timeout, phase));
        if let Some(comparison) = comparison.clone() {
            let (graph, registry, phase) = (graph.clone(), registry.clone(), phases.clone());
            let means =
                ComparisonContext { graph, registry, phase, delete: delete_work, orphan: orphan_work };
            background("comparison", compare(comparison, means), &ending);
        }
        let unprotects = settings.remove_protection_finalizers && !is_dry_run;
        if settings.finish_namespaces || unprotects {
            let (phase, quiet) = (phases.clone(), settings.namespaces.quiet);
            let finishing = finish(work_context, phase, quiet, unprotects);
            background("namespaces", finishing, &ending);
        }
        if settings.finish_namespaces && !is_dry_run {
            background("rights", check_rights(api.clone(), registry.clone()), &ending);
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
            rediscover: discovery.clone().recipient(),
            phase: phases,
            gate,
            comparison,
            ignored: settings.ignored_types().cloned().collect(),
            unwatched: settings.discovery.ignored.clone().into(),
        };
        let after = settings.events.stuck_after;
        if !is_dry_run && !after.is_zero() {
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
        let setup = Setup::new(placement, decisions);
        let controller = Self::start(api.clone(), settings, setup, exporter.clone()).map_err(no_threads)?;
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
        let start = || threads.start(&format!("graph partition {}", id.0));
        let thread = placement.own_graph_threads.then(start).transpose()?;
        let partition = Partition::new(id, sharding, Arc::clone(&catalog));
        partitions.push(GraphActor::start(id, partition, sinks.clone(), thread.as_ref()));
    }
    Ok(GraphHandle::new(sharding, partitions))
}

/// Starts a task that should run as long as the process, and notices when it ends.
fn background(
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
    ending: &CancellationToken,
) {
    let ending = ending.clone();
    let task = tokio::spawn(ending.clone().run_until_cancelled_owned(work));
    tokio::spawn(async move {
        if let Err(error) = task.await
            && !ending.is_cancelled()
        {
            tracing::error!(task = name, %error, "a background task has stopped; restart kube-gc");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the seed is a constant: an author of references could compute the hashes of the
    /// graph and of the queues.
    #[test]
    fn each_process_hashes_with_a_seed_of_its_own() {
        let hash = || Setup::new(Placement::default(), Vec::new()).hash_seed.keyed(1).hash_one("uid");
        let hashes = [hash(), hash(), std::thread::spawn(hash).join().unwrap()];
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
    }
}
