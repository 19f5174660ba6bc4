//! The Lifecycle actor: decides when the pools work.
//!
//! It owns the [`Phase`] of the collector. The pools open when the monitors have synced, or when
//! the start-up timeout is over, and only on the replica that writes. They close when this
//! replica loses the lease, and while the graph is rebuilt after a restore.
//!
//! Discovery reports [`SyncProgress`]. Lifecycle tells it to stop the monitors, to resume,
//! and to discover again.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Recipient, SpawnHandle, WrapFuture};
use futures::future::join_all;
use tokio::sync::watch;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph_handle::GraphHandle;
use crate::actors::messages::{DiscoveryMessage, StopMonitors, SyncProgress};
use crate::actors::pool::{Close, PoolCommand, PoolRecipients};
use crate::actors::registry::Registry;
use crate::actors::supervision::Vital;
use kube_gc_client::{Api, ReplicaRole};
use kube_gc_core::graph::{Effects, Partition};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::Disturbance;
use kube_gc_observe::telemetry::{Structured, record};

/// What Lifecycle acts on.
#[derive(Clone, Debug)]
pub struct LifecycleContext {
    /// The API server: its write gate, its restore fence, its outages.
    pub api: Api,
    pub graph: GraphHandle,
    /// Owners that were proved absent, and owners whose dependents were orphaned.
    pub absent_owners: Arc<AbsentOwnerCache>,
    pub registry: Registry,
    pub discovery: Recipient<DiscoveryMessage>,
    pub stop_monitors: Recipient<StopMonitors>,
    pub pools: Vec<PoolRecipients>,
}

/// The state of the collector as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The pools wait for the monitors to sync.
    Syncing,
    /// The pools work, if this replica is the one that writes.
    Collecting,
    /// The store was restored: everything is read again, and nothing is written.
    Rebuilding,
}

/// Opens and closes the pools.
#[derive(Debug)]
pub struct Lifecycle {
    context: LifecycleContext,
    sync_timeout: Duration,
    phase: watch::Sender<Phase>,
    /// How often the graph was rebuilt.
    rebuilds: u64,
    sync_deadline: Option<SpawnHandle>,
    /// In which role the pools were opened; `None` while they are closed.
    opened: Option<ReplicaRole>,
    _vital: Vital,
}

impl Lifecycle {
    /// Starts with all pools closed. They open after `sync_timeout` even if some monitors have
    /// not synced.
    pub const fn new(context: LifecycleContext, sync_timeout: Duration, phase: watch::Sender<Phase>) -> Self {
        Self {
            context,
            sync_timeout,
            phase,
            rebuilds: 0,
            sync_deadline: None,
            opened: None,
            _vital: Vital("lifecycle"),
        }
    }

    fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Ends the start-up phase.
    fn collect(&mut self, reason: &str) {
        if self.phase() != Phase::Syncing {
            return;
        }
        self.phase.send_replace(Phase::Collecting);
        let monitors = self.context.registry.all();
        let unsynced: Vec<_> = monitors
            .iter()
            .filter(|monitor| !monitor.synced)
            .map(|monitor| &monitor.resource.group_resource)
            .collect();
        let unsynced = Structured::list("unsynced", unsynced.into_iter());
        let unsynced = unsynced.as_ref().map(Structured::logged);
        tracing::info!(reason, monitors = monitors.len(), unsynced, "collecting");
        self.context.api.gate().resume();
        self.open_pools();
    }
}

impl Actor for Lifecycle {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.follow_disturbances(ctx);
        let api = self.context.api.clone();
        // Lists, partitions, and writers that check the store before a write, prove restores.
        self.on_change(api.restore_fence().restores(), ctx, |lifecycle, detail, ctx| {
            lifecycle.restored(&detail, ctx);
        });
        if api.gate().needs_lease() {
            self.on_change(api.gate().role(), ctx, |lifecycle, role, _| lifecycle.role_changed(&role));
        }
        self.on_change(api.recoveries(), ctx, |lifecycle, _, _| lifecycle.recovered());
    }
}

impl Handler<SyncProgress> for Lifecycle {
    type Result = ();

    fn handle(&mut self, progress: SyncProgress, ctx: &mut Self::Context) {
        let SyncProgress { rebuild, all_synced } = progress;
        // Monitors that were stopped for a rebuild synced a graph that is gone.
        if rebuild != self.rebuilds || self.phase() != Phase::Syncing {
            return;
        }
        if self.sync_deadline.is_none() {
            let deadline = ctx.run_later(self.sync_timeout, |lifecycle, _| lifecycle.collect("timeout"));
            self.sync_deadline = Some(deadline);
        }
        if all_synced {
            self.collect("synced");
        }
    }
}

impl Lifecycle {
    /// Follows the restore fence. Whenever watches broke, the store may have been restored, and
    /// an owner that was absent may exist again.
    fn follow_disturbances(&self, ctx: &mut Context<Self>) {
        let context = self.context.clone();
        let follow = async move {
            let restore_fence = context.api.restore_fence();
            let mut known = Disturbance::default();
            loop {
                let now = restore_fence.changed_from(&known).await;
                let disturbance = now.clone();
                let forget = move |graph: &mut Partition, effects: &mut Effects| {
                    graph.disturbed(disturbance, effects);
                };
                // An error means that the graph, and with it the process, is ending.
                if context.graph.ask_all(forget).await.is_err() {
                    return;
                }
                if now.number > known.number {
                    // Not earlier: until the partitions answered, they added to the cache what
                    // they had proved before. Orphaned owners are kept, because they only
                    // prevent deletions.
                    if !mutation::is(Mutation::KeepAbsences) {
                        context.absent_owners.absent.clear();
                    }
                    restore_fence.acknowledge(now.number);
                    context.discovery.do_send(DiscoveryMessage::AbsencesForgotten);
                }
                known = now;
            }
        };
        ctx.spawn(follow.into_actor(self));
    }

    /// Acts on each change of a value.
    fn on_change<T: Clone + 'static>(
        &self,
        mut values: watch::Receiver<T>,
        ctx: &mut Context<Self>,
        act: fn(&mut Self, T, &mut Context<Self>),
    ) {
        let changed = async move { values.changed().await.is_ok().then_some(values) };
        ctx.spawn(changed.into_actor(self).map(move |values, lifecycle, ctx| {
            if let Some(mut values) = values {
                let value = values.borrow_and_update().clone();
                act(lifecycle, value, ctx);
                lifecycle.on_change(values, ctx, act);
            }
        }));
    }

    /// Opens the pools if this replica writes and the start-up phase is over. The graph derives
    /// all work again, because a closed pool does not keep everything.
    fn open_pools(&mut self) {
        let role = self.context.api.gate().role().borrow().clone();
        if !role.writes() || self.phase() != Phase::Collecting {
            return;
        }
        self.opened = Some(role);
        let (graph, pools) = (self.context.graph.clone(), self.context.pools.clone());
        actix::spawn(async move {
            for pool in &pools {
                pool.command.do_send(PoolCommand::Open);
            }
            // An error means that the graph, and with it the process, is ending.
            let _ = graph.ask_all(|partition, effects| partition.rederive(effects)).await;
        });
    }

    /// The write gate has another role of this replica.
    fn role_changed(&mut self, role: &ReplicaRole) {
        if self.opened.as_ref() == Some(role) {
            return;
        }
        if self.opened.take().is_some() {
            for pool in &self.context.pools {
                // The write gate cancels the requests of the items that are in progress.
                pool.close.do_send(Close);
            }
        }
        self.open_pools();
    }

    /// An outage has ended. Types may have come and gone, and what failed may have failed because of
    /// the outage.
    fn recovered(&self) {
        self.context.discovery.do_send(DiscoveryMessage::Rediscover);
        for pool in &self.context.pools {
            pool.command.do_send(PoolCommand::WakeRecovered);
        }
    }

    /// A store that was restored from a backup brings back objects, versions and uids that were
    /// proved absent. Nothing may be written until everything is forgotten and read again.
    fn restored(&mut self, detail: &str, ctx: &mut Context<Self>) {
        if self.phase() == Phase::Rebuilding {
            return;
        }
        record::store_restored();
        tracing::error!(
            reason = detail,
            "the API server's data was restored from a backup; kube-gc rebuilds the graph"
        );
        self.phase.send_replace(Phase::Rebuilding);
        if let Some(deadline) = self.sync_deadline.take() {
            ctx.cancel_future(deadline);
        }
        self.context.api.gate().pause();
        self.opened = None;
        self.rebuilds += 1;
        let forget = forget_everything(self.context.clone());
        ctx.spawn(forget.into_actor(self).map(|(), lifecycle, _| {
            // In this order: discovery reports progress only after it resumed.
            lifecycle.phase.send_replace(Phase::Syncing);
            let resume = DiscoveryMessage::Resume { rebuild: lifecycle.rebuilds };
            lifecycle.context.discovery.do_send(resume);
        }));
    }
}

/// Each step relies on the one before. (Errors mean that an actor, and with it the process, is
/// ending.)
async fn forget_everything(context: LifecycleContext) {
    // No monitor may feed the graph after it is emptied.
    let stopped = context.stop_monitors.send(StopMonitors);
    // Workers in progress decided on versions that may be assigned again.
    join_all(context.pools.iter().map(|pool| pool.close.send(Close))).await;
    let _ = stopped.await;
    context.registry.clear();
    // Links in flight must not arrive in an empty graph, and the caches must not learn what the
    // last changes proved.
    let _ = context.graph.fence().await;
    let _ = context.graph.ask_all(|graph, _| graph.reset()).await;
    context.absent_owners.clear();
    context.api.high_water().forget_all();
    context.api.restore_fence().reset();
}
