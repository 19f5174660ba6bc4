//! The Discovery actor: keeps the set of monitors equal to the set of types.

mod answer;
mod definitions;
mod failing;
mod monitors;
mod schedule;
mod unserved;
mod wake;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Recipient, ResponseFuture, SpawnHandle};
use futures::future::join_all;
use tokio::sync::watch;

use crate::actors::graph_handle::GraphHandle;
use crate::actors::graph_queue::GraphQueue;
use crate::actors::messages::{
    AbsencesForgotten, AskParked, ExpectedDiscovery, MonitorDrained, Rediscover, Resume, ServedTypesChanged,
    Stop, StopMonitors, StoreRestored, Suspend, SyncProgress, TypesListed, Wake, WakeUnresolved,
};
use crate::actors::monitor::Monitor;
use crate::actors::pending_discovery::PendingDiscovery;
use crate::actors::registry::Registry;
use crate::actors::round_types::RoundTypes;
use crate::actors::supervision::{Placement, Vital};
use crate::api::{Api, Discovered, HighWater, Watchable};
use kube_gc_core::graph::{DeletesProve, Epoch};
use kube_gc_core::object::{Catalog, GroupResource, ResourceType};

pub use failing::DiscoveryFailure;
use unserved::Unserved;
use wake::SyncedTypes;

/// The delay after the first discovery failed. It doubles up to the interval.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// Settings of discovery.
#[derive(Clone, Debug)]
pub struct DiscoverySettings {
    /// The time between two regular discoveries.
    pub interval: Duration,
    /// Types that are neither watched nor written.
    pub ignored: Vec<GroupResource>,
}

/// What discovery acts on.
#[derive(Clone, Debug)]
pub struct DiscoveryContext {
    /// The API server.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// Counts the changes that wait for the graph.
    pub graph_queue: GraphQueue,
    /// The last version seen of every type.
    pub high_water: HighWater,
    /// The state of every monitor.
    pub registry: Registry,
    /// Where the monitors run.
    pub placement: Placement,
    /// The recipients in the pools that it wakes.
    pub pools: Vec<PoolWakers>,
    /// Receives the progress of the monitors.
    pub progress: Recipient<SyncProgress>,
    /// Receives the restores that monitors notice.
    pub restored: Recipient<StoreRestored>,
}

/// What discovery asks of a pool.
#[derive(Clone, Debug)]
pub struct PoolWakers {
    /// Queue all keys that wait for a kind to resolve.
    pub unresolved: Recipient<WakeUnresolved>,
    /// Name the keys that wait for a kind to resolve or for an owner's type to be read.
    pub parked: Recipient<AskParked>,
    /// Queue some of them.
    pub wake: Recipient<Wake>,
}

/// What discovery knows, for readiness and debugging.
#[derive(Clone, Debug)]
pub struct DiscoveryStatus {
    /// Whether any discovery has succeeded.
    pub discovered: bool,
    /// Whether a discovery is under way, or an announced change is not shown yet.
    pub busy: bool,
    /// The error of the last discovery, if it failed.
    pub last_error: Option<String>,
    /// The parts of the API that cannot be discovered. Their monitors are kept.
    pub failing: Vec<DiscoveryFailure>,
}

#[derive(Debug)]
struct Running {
    resource: Arc<ResourceType>,
    deletes_prove: DeletesProve,
    address: Addr<Monitor>,
    epoch: Epoch,
    draining: bool,
    /// Whether another monitor of the type follows, because the type is still served.
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

/// Discovers the served types every interval, and at once when a CRD or an APIService changes.
/// Starts and drains monitors.
#[derive(Debug)]
pub struct Discovery {
    context: DiscoveryContext,
    settings: DiscoverySettings,
    status: watch::Sender<DiscoveryStatus>,
    round_types: watch::Sender<Arc<RoundTypes>>,
    discovered: Option<Arc<Discovered>>,
    /// Ordered, because the order in which monitors receive messages must be deterministic.
    monitors: BTreeMap<GroupResource, Running>,
    pending: PendingDiscovery,
    /// The latest answer, with what is kept of earlier ones.
    catalog: Arc<Catalog>,
    unserved: Unserved,
    /// Types that are kept although their monitors have ended.
    unmonitored: BTreeMap<GroupResource, Arc<ResourceType>>,
    last_epoch: u64,
    discovering: bool,
    again: bool,
    next_discovery: Option<SpawnHandle>,
    retry: Duration,
    synced_types: SyncedTypes,
    /// Whether the graph is being rebuilt: no monitor starts, and answers are dropped.
    suspended: bool,
    /// How often the graph was rebuilt before the monitors started.
    rebuild: u64,
    _vital: Vital,
}

impl Discovery {
    /// An actor that knows nothing yet.
    #[must_use]
    pub fn new(
        context: DiscoveryContext,
        settings: DiscoverySettings,
        status: watch::Sender<DiscoveryStatus>,
        round_types: watch::Sender<Arc<RoundTypes>>,
    ) -> Self {
        Self {
            context,
            settings,
            status,
            round_types,
            discovered: None,
            monitors: BTreeMap::new(),
            pending: PendingDiscovery::default(),
            catalog: Arc::default(),
            unserved: Unserved::default(),
            unmonitored: BTreeMap::new(),
            last_epoch: 0,
            discovering: false,
            again: false,
            next_discovery: None,
            retry: FIRST_RETRY,
            synced_types: SyncedTypes::default(),
            suspended: false,
            rebuild: 0,
            _vital: Vital("discovery"),
        }
    }

    /// The status before anything is known.
    #[must_use]
    pub const fn initial_status() -> DiscoveryStatus {
        DiscoveryStatus { discovered: false, busy: true, last_error: None, failing: Vec::new() }
    }
}

impl Actor for Discovery {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Every monitor may send a message at the same time.
        ctx.set_mailbox_capacity(4096);
        self.discover(ctx);
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
        self.discover(ctx);
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
        self.discover(ctx);
    }
}

impl Handler<MonitorDrained> for Discovery {
    type Result = ();

    fn handle(&mut self, MonitorDrained(resource, epoch): MonitorDrained, ctx: &mut Self::Context) {
        tracing::info!(%resource, "kube-gc has stopped watching this type");
        self.monitor_ended(&resource, epoch, ctx);
    }
}

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

impl Handler<Suspend> for Discovery {
    type Result = ();

    fn handle(&mut self, Suspend: Suspend, _: &mut Self::Context) {
        self.suspended = true;
    }
}

impl Handler<Resume> for Discovery {
    type Result = ();

    fn handle(&mut self, Resume { rebuild }: Resume, ctx: &mut Self::Context) {
        self.suspended = false;
        self.rebuild = rebuild;
        self.reconcile(ctx);
        // The restored store may serve other types.
        self.again = false;
        self.discover(ctx);
    }
}

impl Handler<Rediscover> for Discovery {
    type Result = ();

    fn handle(&mut self, Rediscover: Rediscover, ctx: &mut Self::Context) {
        self.discover(ctx);
    }
}

impl Handler<AbsencesForgotten> for Discovery {
    type Result = ();

    fn handle(&mut self, AbsencesForgotten: AbsencesForgotten, ctx: &mut Self::Context) {
        // A type that was gone may be served again, and objects wait for the answer.
        let is_draining = || self.monitors.values().any(|running| running.draining);
        if is_draining() || self.unserved.has_gone() {
            self.discover(ctx);
        }
    }
}
