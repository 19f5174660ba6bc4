//! The Lifecycle actor: decides when the pools work.
//!
//! It owns the [`Phase`] of the collector. The pools open when the monitors have synced, or when
//! the start-up timeout is over, and only on the replica that writes. They close when this
//! replica loses the lease, and while the graph is rebuilt after a restore.
//!
//! Discovery reports [`SyncProgress`]. Lifecycle tells it to suspend, to stop the monitors, to
//! resume, and to discover again.

mod disturbances;
mod leadership;
mod rebuild;
mod recovery;

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler, Recipient, SpawnHandle};
use tokio::sync::watch;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph_handle::GraphHandle;
use crate::actors::messages::{
    AbsencesForgotten, Close, Open, Rediscover, Resume, StopMonitors, Suspend, SyncProgress, WakeRecovered,
};
use crate::actors::registry::Registry;
use crate::actors::supervision::Vital;
use crate::api::{Api, HighWater, ReplicaRole};
use crate::telemetry::Structured;

/// What Lifecycle acts on.
#[derive(Clone, Debug)]
pub struct LifecycleContext {
    /// The API server: its write gate, its restore fence, its outages.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// Owners that were proved absent, and owners whose dependents were orphaned.
    pub absent_owners: Arc<AbsentOwnerCache>,
    /// The last version seen of every type.
    pub high_water: HighWater,
    /// The state of the monitors.
    pub registry: Registry,
    /// Discovery, which owns the monitors.
    pub discovery: DiscoveryRecipients,
    /// The pools.
    pub pools: Vec<PoolRecipients>,
}

/// What Lifecycle asks of discovery.
#[derive(Clone, Debug)]
pub struct DiscoveryRecipients {
    /// Start no monitor until resumed.
    pub suspend: Recipient<Suspend>,
    /// End all monitors.
    pub stop_monitors: Recipient<StopMonitors>,
    /// Start the monitors again.
    pub resume: Recipient<Resume>,
    /// Discover the served types now.
    pub rediscover: Recipient<Rediscover>,
    /// Check again what was seen to be gone.
    pub absences_forgotten: Recipient<AbsencesForgotten>,
}

/// What Lifecycle asks of a pool.
#[derive(Clone, Debug)]
pub struct PoolRecipients {
    /// Start handing out work.
    pub open: Recipient<Open>,
    /// Stop handing out work.
    pub close: Recipient<Close>,
    /// Queue what an outage delayed.
    pub recovered: Recipient<WakeRecovered>,
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
    #[must_use]
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
        // Every monitor may see the same restore.
        ctx.set_mailbox_capacity(4096);
        self.follow_disturbances(ctx);
        self.follow_restores(ctx);
        self.follow_role(ctx);
        self.follow_recoveries(ctx);
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
