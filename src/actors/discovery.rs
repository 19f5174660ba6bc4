//! The Discovery actor: keeps the set of monitors equal to the set of types.

mod disturbances;
mod failing;
mod leadership;
mod monitors;
mod rebuild;
mod recovery;
mod unserved;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Recipient, ResponseFuture, SpawnHandle,
    WrapFuture,
};
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::actors::graph_handle::GraphHandle;
use crate::actors::graph_queue::GraphQueue;
use crate::actors::messages::{
    AskParked, Close, ExpectedDiscovery, MonitorDrained, Open, ServedTypesChanged, Stop, SyncChanged,
    TypesListed, Wake, WakeRecovered, WakeUnresolved,
};
use crate::actors::monitor::Monitor;
use crate::actors::pending_discovery::PendingDiscovery;
use crate::actors::registry::Registry;
use crate::actors::supervision::{Placement, Vital, task};
use crate::api::{Api, ApiError, Discovered, GroupFailure, HighWater, ReplicaRole, Watchable};
use crate::telemetry::record;
use crate::worker::absent_owner_cache::Memory;
use crate::worker::orphan::RoundTypes;
use kube_gc_core::graph::{DeletesProve, Epoch};
use kube_gc_core::object::{Catalog, GroupResource, ResourceType};

pub use failing::Failing;
use unserved::{Answer, GroupVersion, Unserved};

/// The wait after a first discovery that failed; doubled up to the interval.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// How discovery and the monitors are to be run.
#[derive(Clone, Debug)]
pub struct DiscoverySettings {
    /// Between two regular looks.
    pub interval: Duration,
    /// Types that are neither watched nor touched.
    pub ignored: Vec<GroupResource>,
    /// How long the workers wait for the monitors at the start.
    pub sync_timeout: Duration,
}

/// What discovery acts on.
#[derive(Clone, Debug)]
pub struct DiscoveryContext {
    /// The API server.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// What the workers remember.
    pub memory: Arc<Memory>,
    /// Counts what is on its way into the graph.
    pub graph_queue: GraphQueue,
    /// The last version seen of every type.
    pub high_water: HighWater,
    /// How the monitors are doing.
    pub registry: Registry,
    /// Where the monitors run.
    pub placement: Placement,
    /// The pools, which it opens and wakes.
    pub pools: Vec<PoolRecipients>,
}

/// What discovery asks of a pool.
#[derive(Clone, Debug)]
pub struct PoolRecipients {
    /// Start handing out work.
    pub open: Recipient<Open>,
    /// Stop handing out work.
    pub close: Recipient<Close>,
    /// Queue what waits for a kind to resolve.
    pub wake_all: Recipient<WakeUnresolved>,
    /// Say what waits for a kind to resolve or for an owner's type to be read.
    pub parked: Recipient<AskParked>,
    /// Queue some of it.
    pub wake: Recipient<Wake>,
    /// Queue what an outage has delayed.
    pub recovered: Recipient<WakeRecovered>,
}

/// Where the collector as a whole stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The workers wait for the monitors to sync.
    Syncing,
    /// The workers work, if this replica is the one that writes.
    Collecting,
    /// The store went back in time: everything is read anew, nothing is written.
    Rebuilding,
}

/// What discovery knows, for readiness and debugging.
#[derive(Clone, Debug)]
pub struct DiscoveryStatus {
    /// Whether it has worked at least once.
    pub discovered: bool,
    /// Whether a change was announced that it has not shown yet, or a look is on its way.
    pub busy: bool,
    /// Where the collector stands.
    pub phase: Phase,
    /// Why it failed the last time, if it did.
    pub last_error: Option<String>,
    /// What cannot be discovered; the monitors of it are kept.
    pub failing: Vec<Failing>,
}

#[derive(Debug)]
struct Running {
    resource: Arc<ResourceType>,
    deletes_prove: DeletesProve,
    address: Addr<Monitor>,
    epoch: Epoch,
    draining: bool,
    /// Whether the next monitor of the type follows at once: it is still served.
    replaced: bool,
}

impl Running {
    fn is_for(&self, watchable: &Watchable) -> bool {
        self.resource == watchable.resource && self.deletes_prove == worth_of_deletes(watchable)
    }
}

const fn worth_of_deletes(watchable: &Watchable) -> DeletesProve {
    if watchable.aggregated { DeletesProve::Nothing } else { DeletesProve::Absence }
}

/// Looks at the served types every interval, and at once when a CRD or an
/// APIService changes; starts and drains monitors; opens the pools.
#[derive(Debug)]
pub struct Discovery {
    means: DiscoveryContext,
    settings: DiscoverySettings,
    status: watch::Sender<DiscoveryStatus>,
    round_types: watch::Sender<Arc<RoundTypes>>,
    discovered: Option<Arc<Discovered>>,
    /// Ordered: in what order they are told something must not depend on chance.
    monitors: BTreeMap<GroupResource, Running>,
    pending: PendingDiscovery,
    /// What the latest answer says, and what is kept of those before.
    catalog: Arc<Catalog>,
    unserved: Unserved,
    /// Types that are kept and whose monitors have ended.
    left: BTreeMap<GroupResource, Arc<ResourceType>>,
    last_epoch: u64,
    looking: bool,
    again: bool,
    next_look: Option<SpawnHandle>,
    retry: Duration,
    sync_deadline: Option<SpawnHandle>,
    /// As what the pools were opened; `None`: they are closed.
    opened: Option<ReplicaRole>,
    _vital: Vital,
}

impl Discovery {
    /// Not started yet: nothing is known.
    #[must_use]
    pub fn new(
        means: DiscoveryContext,
        settings: DiscoverySettings,
        status: watch::Sender<DiscoveryStatus>,
        round_types: watch::Sender<Arc<RoundTypes>>,
    ) -> Self {
        Self {
            means,
            settings,
            status,
            round_types,
            discovered: None,
            monitors: BTreeMap::new(),
            pending: PendingDiscovery::default(),
            catalog: Arc::default(),
            unserved: Unserved::default(),
            left: BTreeMap::new(),
            last_epoch: 0,
            looking: false,
            again: false,
            next_look: None,
            retry: FIRST_RETRY,
            sync_deadline: None,
            opened: None,
            _vital: Vital("discovery"),
        }
    }

    /// The status before anything is known.
    #[must_use]
    pub const fn initial_status() -> DiscoveryStatus {
        DiscoveryStatus {
            discovered: false,
            busy: true,
            phase: Phase::Syncing,
            last_error: None,
            failing: Vec::new(),
        }
    }

    fn phase(&self) -> Phase {
        self.status.borrow().phase
    }

    /// Looks now, or right after the look that is on its way.
    fn look(&mut self, ctx: &mut Context<Self>) {
        if let Some(handle) = self.next_look.take() {
            ctx.cancel_future(handle);
        }
        if self.looking || self.phase() == Phase::Rebuilding {
            self.again = true;
            return;
        }
        self.looking = true;
        self.status.send_modify(|status| status.busy = true);
        let (api, previous) = (self.means.api.clone(), self.discovered.clone());
        // On the thread pool: it decodes every type of the server.
        let look = task(async move { api.discover(previous.as_deref()).await });
        ctx.spawn(look.into_actor(self).map(|result, discovery, ctx| match result {
            Ok(result) => discovery.looked(result, ctx),
            Err(error) => {
                tracing::error!(%error, "discovery failed unexpectedly; it is repeated");
                discovery.look_ended(Some(discovery.settings.interval), ctx);
            }
        }));
    }

    fn look_later(&mut self, wait: Duration, ctx: &mut Context<Self>) {
        if let Some(handle) = self.next_look.take() {
            ctx.cancel_future(handle);
        }
        self.next_look = Some(ctx.run_later(wait, |discovery, ctx| {
            discovery.next_look = None;
            discovery.look(ctx);
        }));
    }

    fn look_ended(&mut self, wait: Option<Duration>, ctx: &mut Context<Self>) {
        self.looking = false;
        let busy = self.again || !self.pending.is_empty();
        self.status.send_modify(|status| status.busy = busy);
        if std::mem::take(&mut self.again) {
            self.look(ctx);
        } else {
            self.look_later(wait.unwrap_or(self.settings.interval), ctx);
        }
    }

    fn looked(&mut self, result: Result<Discovered, ApiError>, ctx: &mut Context<Self>) {
        match result {
            Ok(discovered) if self.phase() == Phase::Rebuilding => drop(discovered),
            Ok(discovered) => return self.weigh(discovered, ctx),
            Err(error) => {
                record::discovery_error();
                if self.status.borrow().last_error.is_some() || self.means.api.is_unreachable() {
                    tracing::debug!(%error, "discovery failed; everything is kept as it is");
                } else {
                    tracing::warn!(%error, "discovery failed; everything is kept as it is");
                }
                self.status.send_modify(|status| {
                    let failing = failing::after_nothing(&status.failing, &error, SystemTime::now());
                    failing::recorded(&status.failing, &failing);
                    status.failing = failing;
                    status.last_error = Some(error.to_string());
                });
            }
        }
        let wait = match (self.pending.discovery_failed(), &self.discovered) {
            (Some(wait), _) => wait,
            (None, Some(_)) => self.settings.interval,
            (None, None) => {
                let wait = self.retry;
                self.retry = (self.retry * 2).min(self.settings.interval);
                wait
            }
        };
        self.look_ended(Some(wait), ctx);
    }

    /// Asks for what defines the types that are missing: nothing follows from that
    /// alone.
    fn weigh(&mut self, discovered: Discovered, ctx: &mut Context<Self>) {
        let missing = self.missing_in(&discovered);
        let number = self.means.api.restore_fence().acknowledged();
        let questions = self.unserved.questions(&missing, number);
        let versions = unserved::missing_versions(&self.catalog, &discovered.catalog);
        let api = self.means.api.clone();
        let weigh = async move {
            (unserved::weigh(&api, questions).await, unserved::gone_versions(&api, versions).await)
        };
        ctx.spawn(weigh.into_actor(self).map(move |(weighed, versions), discovery, ctx| {
            if discovery.phase() == Phase::Rebuilding {
                return discovery.look_ended(None, ctx);
            }
            let is_missing = |resource: &ResourceType| {
                missing.iter().any(|missing| missing.group_resource == resource.group_resource)
            };
            let proved = weighed.iter().filter(|weighed| weighed.is_gone == Some(true));
            let gone = proved
                .filter(|weighed| is_missing(&weighed.resource))
                .map(|weighed| weighed.resource.group_resource.clone())
                .collect();
            for resource in discovery.unserved.weighed(weighed, number) {
                discovery.type_is_gone_still(resource, ctx);
            }
            discovery.apply(discovered, Absences { missing, gone, versions }, ctx);
        }));
    }

    /// The types that were followed and that an answer does not offer any more.
    fn missing_in(&self, discovered: &Discovered) -> Vec<Arc<ResourceType>> {
        let offered: BTreeSet<_> =
            discovered.watchable.iter().map(|watchable| &watchable.resource.group_resource).collect();
        let monitored = self.monitors.values().map(|running| &running.resource);
        let known: BTreeMap<_, _> = self
            .unserved
            .types()
            .chain(monitored)
            .map(|resource| (&resource.group_resource, resource))
            .collect();
        let missing = known.into_iter().filter(|(name, _)| !offered.contains(name));
        missing.map(|(_, resource)| Arc::clone(resource)).collect()
    }

    /// First the catalog reaches every partition, then monitors begin: what they
    /// bring must resolve.
    fn apply(&mut self, discovered: Discovered, absences: Absences, ctx: &mut Context<Self>) {
        let Absences { missing, gone, versions: gone_versions } = absences;
        let discovered = Arc::new(discovered);
        let before = self.discovered.replace(Arc::clone(&discovered));
        let catalog_before = before.as_ref().map(|before| &*before.catalog);
        let wait = self.pending.discovered(catalog_before, &discovered.catalog);
        let is_complete = discovered.failures.is_empty();
        let answer = Answer {
            catalog: &discovered.catalog,
            before: &self.catalog,
            missing,
            gone,
            gone_versions,
            is_complete,
        };
        let (catalog, gone) = self.unserved.answered(answer, Instant::now());
        let changed = before.is_none() || self.catalog != catalog;
        self.catalog = Arc::clone(&catalog);
        for failure in &discovered.failures {
            record::discovery_error();
            let GroupFailure { group, error, .. } = failure;
            let is_known = self.status.borrow().failing.iter().any(|known| known.is_about(failure));
            // One line when it begins; in an outage of everything, one for all groups.
            if is_known || self.means.api.is_unreachable() {
                tracing::debug!(%group, %error, "group could not be discovered; its monitors are kept");
            } else {
                tracing::warn!(%group, %error, "group could not be discovered; its monitors are kept");
            }
        }
        self.status.send_modify(|status| {
            status.discovered = true;
            status.last_error = None;
            let mut failing = failing::after(&status.failing, &discovered.failures, SystemTime::now());
            failing.extend(self.unserved.failing());
            failing::recorded(&status.failing, &failing);
            status.failing = failing;
        });
        let graph = self.means.graph.clone();
        let tell = async move {
            if changed {
                // An error means that the graph, and with it the process, is ending.
                let _ = graph.use_catalog(&catalog).await;
            }
        };
        ctx.spawn(tell.into_actor(self).map(move |(), discovery, ctx| {
            if discovery.phase() != Phase::Rebuilding {
                discovery.types_left(&gone, ctx);
                discovery.reconcile(ctx);
                if changed {
                    for pool in &discovery.means.pools {
                        pool.wake_all.do_send(WakeUnresolved);
                    }
                }
            }
            discovery.look_ended(wait, ctx);
        }));
    }
}

/// What an answer does not show any more.
struct Absences {
    /// Types that were followed.
    missing: Vec<Arc<ResourceType>>,
    /// Those of them that are proved to be gone.
    gone: BTreeSet<GroupResource>,
    /// Versions that are.
    versions: BTreeSet<GroupVersion>,
}

impl Actor for Discovery {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Every monitor may have something to say at the same time.
        ctx.set_mailbox_capacity(4096);
        self.hear_of_disturbances(ctx);
        self.hear_of_restores(ctx);
        self.hear_of_leadership(ctx);
        self.hear_of_recoveries(ctx);
        self.look(ctx);
    }
}

impl Handler<ServedTypesChanged> for Discovery {
    type Result = ();

    fn handle(&mut self, message: ServedTypesChanged, ctx: &mut Self::Context) {
        let known = self.discovered.clone();
        if let ExpectedDiscovery::Served(resource) = &message.expected {
            self.unserved.defined(resource.clone());
        }
        self.pending.add(message.expected, known.as_ref().map(|known| &*known.catalog));
        self.look(ctx);
    }
}

impl Handler<TypesListed> for Discovery {
    type Result = ();

    fn handle(&mut self, TypesListed(defined): TypesListed, ctx: &mut Self::Context) {
        for resource in &defined {
            self.unserved.defined(resource.clone());
        }
        let Some(known) = self.discovered.clone() else { return };
        let unknown = |resource: &GroupResource| known.catalog.resource(resource).is_none();
        let unknown: Vec<_> = defined.into_iter().filter(unknown).collect();
        if unknown.is_empty() {
            return;
        }
        for resource in unknown {
            self.pending.add(ExpectedDiscovery::Served(resource), Some(&known.catalog));
        }
        self.look(ctx);
    }
}

impl Handler<SyncChanged> for Discovery {
    type Result = ();

    fn handle(&mut self, SyncChanged(resource): SyncChanged, ctx: &mut Self::Context) {
        let synced = self.means.registry.is_synced(&resource);
        tracing::debug!(%resource, synced, "monitor");
        self.synced_changed();
        if synced {
            // Owners of this type that could not be looked up may be answered for now.
            // What waits for other types stays where it is: it would only be tried in vain.
            for pool in self.means.pools.clone() {
                let (graph, resource) = (self.means.graph.clone(), resource.clone());
                let wake = async move {
                    // An error means that the pool or the graph, and with it the process, is ending.
                    let Ok(parked) = pool.parked.send(AskParked).await else { return };
                    if let Ok(concerned) = graph.concerned(parked, &resource).await {
                        pool.wake.do_send(Wake(concerned));
                    }
                };
                ctx.spawn(wake.into_actor(self));
            }
        }
    }
}

impl Handler<MonitorDrained> for Discovery {
    type Result = ();

    fn handle(&mut self, MonitorDrained(resource, epoch): MonitorDrained, ctx: &mut Self::Context) {
        tracing::info!(%resource, "monitor drained");
        self.monitor_ended(&resource, epoch, ctx);
    }
}

/// End all monitors. Answered when their watches are closed.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub struct StopMonitors;

impl Handler<StopMonitors> for Discovery {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, StopMonitors: StopMonitors, _: &mut Self::Context) -> Self::Result {
        let monitors: Vec<_> =
            std::mem::take(&mut self.monitors).into_values().map(|running| running.address).collect();
        Box::pin(async move {
            join_all(monitors.iter().map(|monitor| monitor.send(Stop))).await;
        })
    }
}
