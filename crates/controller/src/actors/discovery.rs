//! The Discovery actor: keeps the set of monitors equal to the set of types.

mod failing;
mod monitors;
mod schedule;
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
use crate::actors::messages::{DiscoveryMessage, ExpectedDiscovery, StopMonitors, SyncProgress};
use crate::actors::monitor::{Monitor, MonitorContext, Stop};
use crate::actors::pool::{AskParked, PoolCommand, PoolRecipients};
use crate::actors::registry::RoundTypes;
use crate::actors::supervision::Vital;
use kube_gc_client::{Discovered, Watchable};
use kube_gc_core::graph::Epoch;
use kube_gc_core::object::{Catalog, GroupResource, ResourceType};
use kube_gc_observe::telemetry::record;

pub use failing::DiscoveryFailure;
use schedule::PendingDiscovery;
use unserved::{Absences, Unserved};

/// The delay after the first discovery failed. It doubles up to the interval.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// What discovery acts on.
#[derive(Clone, Debug)]
pub struct DiscoveryContext {
    pub monitors: MonitorContext,
    pub pools: Vec<PoolRecipients>,
    pub progress: Recipient<SyncProgress>,
    pub interval: Duration,
    /// Types that are neither watched nor written.
    pub ignored: Vec<GroupResource>,
}

/// What discovery knows, for readiness and debugging.
#[derive(Clone, Debug)]
pub struct DiscoveryStatus {
    /// The last answer, if any discovery has succeeded.
    pub discovered: Option<Arc<Discovered>>,
    /// Whether a discovery is under way, or an announced change is not shown yet.
    pub busy: bool,
    /// The error of the last discovery, if it failed.
    pub last_error: Option<String>,
    /// The parts of the API that cannot be discovered. Their monitors are kept.
    pub failing: Vec<DiscoveryFailure>,
}

#[derive(Debug)]
struct Running {
    watched: Watchable,
    address: Addr<Monitor>,
    epoch: Epoch,
    draining: bool,
    /// Whether another monitor of the type follows, because the type is still served.
    replaced: bool,
}

/// Discovers the served types every interval, and at once when a CRD or an APIService changes.
/// Starts and drains monitors.
#[derive(Debug)]
pub struct Discovery {
    context: DiscoveryContext,
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
    pub fn new(
        context: DiscoveryContext,
        status: watch::Sender<DiscoveryStatus>,
        round_types: watch::Sender<Arc<RoundTypes>>,
    ) -> Self {
        Self {
            context,
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
    pub const fn initial_status() -> DiscoveryStatus {
        DiscoveryStatus { discovered: None, busy: true, last_error: None, failing: Vec::new() }
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

impl Handler<DiscoveryMessage> for Discovery {
    type Result = ();

    fn handle(&mut self, message: DiscoveryMessage, ctx: &mut Self::Context) {
        match message {
            DiscoveryMessage::ServedTypesChanged(expected) => {
                if let ExpectedDiscovery::Served(resource) = &expected {
                    self.unserved.defined(resource.clone());
                }
                self.pending.add(expected, self.discovered.as_ref().map(|known| &*known.catalog));
                self.discover(ctx);
            }
            DiscoveryMessage::TypeListed(resource) => {
                self.unserved.defined(resource.clone());
                let known = self.discovered.as_ref().map(|known| &*known.catalog);
                if known.is_some_and(|known| known.resource(&resource).is_none()) {
                    self.pending.add(ExpectedDiscovery::Served(resource), known);
                    self.discover(ctx);
                }
            }
            DiscoveryMessage::SyncChanged(resource) => {
                let synced = self.context.monitors.registry.is_synced(&resource);
                tracing::debug!(%resource, synced, "monitor");
                self.synced_changed();
                if synced {
                    self.synced_types.next.insert(resource);
                    self.wake_parked(ctx);
                }
            }
            DiscoveryMessage::MonitorDrained(resource, epoch) => {
                tracing::info!(%resource, "kube-gc has stopped watching this type");
                self.monitor_ended(&resource, epoch, ctx);
            }
            DiscoveryMessage::Resume { rebuild } => {
                self.suspended = false;
                self.rebuild = rebuild;
                self.reconcile(ctx);
                // The restored store may serve other types.
                self.again = false;
                self.discover(ctx);
            }
            DiscoveryMessage::Rediscover => self.discover(ctx),
            DiscoveryMessage::AbsencesForgotten => {
                // A type that was gone may be served again, and objects wait for the answer.
                let is_draining = || self.monitors.values().any(|running| running.draining);
                if is_draining() || self.unserved.has_gone() {
                    self.discover(ctx);
                }
            }
        }
    }
}

impl Handler<StopMonitors> for Discovery {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, StopMonitors: StopMonitors, _: &mut Self::Context) -> Self::Result {
        self.suspended = true;
        let monitors: Vec<_> =
            std::mem::take(&mut self.monitors).into_values().map(|running| running.address).collect();
        Box::pin(async move {
            join_all(monitors.iter().map(|monitor| monitor.send(Stop))).await;
        })
    }
}

impl Discovery {
    /// Looks up the definitions of the types that an answer lacks. A missing type alone proves
    /// nothing.
    fn check_missing(&mut self, discovered: Discovered, ctx: &mut Context<Self>) {
        let missing = self.missing_in(&discovered);
        let number = self.context.monitors.api.restore_fence().acknowledged();
        let questions = self.unserved.questions(&missing, number);
        let versions = unserved::missing_versions(&self.catalog, &discovered.catalog);
        let known = self.unserved.types().map(|resource| resource.group_resource.clone()).collect();
        let api = self.context.monitors.api.clone();
        let check = async move {
            let checked = unserved::check(&api, questions, &known).await;
            (checked, unserved::gone_versions(&api, versions).await)
        };
        ctx.spawn(check.into_actor(self).map(move |(checked, versions), discovery, ctx| {
            if discovery.suspended {
                return discovery.discovery_ended(None, ctx);
            }
            let is_missing = |resource: &ResourceType| {
                missing.iter().any(|missing| missing.group_resource == resource.group_resource)
            };
            let proved = checked.iter().filter(|checked| checked.is_gone == Some(true));
            let gone = proved
                .filter(|checked| is_missing(&checked.resource))
                .map(|checked| checked.resource.group_resource.clone())
                .collect();
            for resource in discovery.unserved.definitions_checked(checked, number) {
                discovery.confirm_type_gone(resource, ctx);
            }
            discovery.apply(discovered, Absences { missing, gone, versions }, ctx);
        }));
    }

    /// The known types that an answer does not contain.
    fn missing_in(&self, discovered: &Discovered) -> Vec<Arc<ResourceType>> {
        let offered: BTreeSet<_> =
            discovered.watchable.iter().map(|watchable| &watchable.resource.group_resource).collect();
        let monitored = self.monitors.values().map(|running| &running.watched.resource);
        let known: BTreeMap<_, _> = self
            .unserved
            .types()
            .chain(monitored)
            .map(|resource| (&resource.group_resource, resource))
            .collect();
        let missing = known.into_iter().filter(|(name, _)| !offered.contains(name));
        missing.map(|(_, resource)| Arc::clone(resource)).collect()
    }

    /// Applies an answer. Every partition receives the catalog before a monitor starts, because
    /// the references of the monitored objects must resolve.
    fn apply(&mut self, discovered: Discovered, absences: Absences, ctx: &mut Context<Self>) {
        let discovered = Arc::new(discovered);
        let before = self.discovered.replace(Arc::clone(&discovered));
        let catalog_before = before.as_ref().map(|before| &*before.catalog);
        let wait = self.pending.discovered(catalog_before, &discovered.catalog);
        let is_complete = discovered.failures.is_empty();
        let (catalog, gone) =
            self.unserved.apply(&self.catalog, &discovered.catalog, absences, is_complete, Instant::now());
        let changed = before.is_none() || self.catalog != catalog;
        self.catalog = Arc::clone(&catalog);
        discovered.failures.iter().for_each(|_| record::discovery_error());
        let is_outage = self.context.monitors.api.is_unreachable();
        self.status.send_modify(|status| {
            status.discovered = Some(Arc::clone(&discovered));
            status.last_error = None;
            let mut failing = failing::after(&status.failing, &discovered.failures, SystemTime::now());
            failing::log(&status.failing, &mut failing, is_outage);
            failing.extend(self.unserved.failing());
            failing::record(&status.failing, &failing);
            status.failing = failing;
        });
        let graph = self.context.monitors.graph.clone();
        let tell = async move {
            if changed {
                // An error means that the graph, and with it the process, is ending.
                let _ = graph.ask_all(move |graph, effects| graph.set_catalog(catalog, effects)).await;
            }
        };
        ctx.spawn(tell.into_actor(self).map(move |(), discovery, ctx| {
            if !discovery.suspended {
                discovery.remove_types(&gone, ctx);
                discovery.reconcile(ctx);
                if changed {
                    for pool in &discovery.context.pools {
                        pool.command.do_send(PoolCommand::WakeUnresolved);
                    }
                }
            }
            discovery.discovery_ended(wait, ctx);
        }));
    }

    /// Owners of these types that could not be looked up may be readable now. Objects that wait for
    /// other types are not woken: their retry would fail again.
    fn wake_parked(&mut self, ctx: &mut Context<Self>) {
        let Some(types) = self.synced_types.take() else { return };
        let graph = self.context.monitors.graph.clone();
        let pools = self
            .context
            .pools
            .clone()
            .into_iter()
            .map(move |pool| wake(pool, graph.clone(), Arc::clone(&types)));
        let ended = join_all(pools).into_actor(self).map(|_, discovery, ctx| {
            discovery.synced_types.is_asking = false;
            discovery.wake_parked(ctx);
        });
        ctx.spawn(ended);
    }
}

/// The types that were synced, and for which keys may wait.
///
/// Each question is about all parked keys. When hundreds of types are listed again, each of them
/// must not ask separately: types that are synced while a question is under way share the next one.
#[derive(Debug, Default)]
struct SyncedTypes {
    next: BTreeSet<GroupResource>,
    is_asking: bool,
}

impl SyncedTypes {
    /// The types to ask about now, if any.
    fn take(&mut self) -> Option<Arc<BTreeSet<GroupResource>>> {
        let types = (!self.is_asking && !self.next.is_empty()).then(|| std::mem::take(&mut self.next))?;
        self.is_asking = true;
        Some(Arc::new(types))
    }
}

async fn wake(pool: PoolRecipients, graph: GraphHandle, types: Arc<BTreeSet<GroupResource>>) {
    // An error means that the pool or the graph, and with it the process, is ending.
    let Ok(parked) = pool.parked.send(AskParked).await else { return };
    if let Ok(concerned) = graph.concerned(parked, &types).await {
        pool.command.do_send(PoolCommand::Wake(concerned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if each type asks about all parked keys by itself: 200 types and 100,000 keys are 20
    /// million answers after an outage.
    #[test]
    fn types_that_are_synced_during_a_question_share_the_next_one() {
        let mut types = SyncedTypes::default();
        assert_eq!(types.take(), None);
        let mut asked = Vec::new();
        for number in 0..200 {
            types.next.insert(GroupResource::parse(&format!("widgets-{number}.example.com")));
            asked.extend(types.take().map(|types| types.len()));
        }
        assert_eq!(asked, [1]);
        types.is_asking = false;
        assert_eq!(types.take().map(|types| types.len()), Some(199));
        types.is_asking = false;
        assert_eq!(types.take(), None);
    }
}
