//! The Monitor actor: watches one resource type and feeds the graph.

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Recipient, ResponseFuture,
    WrapFuture,
};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::graph_handle::{GraphHandle, PartitionEnded};
use super::graph_queue::GraphQueue;
use super::lanes::{Envelope, Lanes};
use super::messages::{
    Drain, Expected, MonitorDrained, ServedTypesChanged, Stop, StoreRestored, SyncChanged, TakeIn,
    TypesListed,
};
use super::registry::Registry;
use super::supervision::Placement;
use crate::api::{Api, HighWater, Sighting, Step, WatchStart};
use crate::graph::{Change, DeletesProve, Epoch, Intake};
use crate::object::{GroupResource, ObjectFacts, ResourceType};
use crate::telemetry::record;

mod progress;

use progress::{Listed, Progress};

/// How long the monitor of a type that is no longer served may go on: the last
/// deletions of a deleted CRD's objects are still on their way.
const DRAIN_AT_MOST: Duration = Duration::from_secs(30);

/// How long a monitor that failed unexpectedly waits: what it failed at may be
/// there again.
const RESTART_AFTER: Duration = Duration::from_secs(5);

/// What every monitor needs.
#[derive(Debug, Clone)]
pub struct MonitorContext {
    /// The API server.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// Counts what is on its way into the graph.
    pub graph_queue: GraphQueue,
    /// The last version seen of every type; outlives the monitors.
    pub high_water: HighWater,
    /// Where it says how it is doing.
    pub registry: Registry,
    /// Where its list and watch runs.
    pub placement: Placement,
    /// Whom it tells that it is synced, or no longer.
    pub synced: Recipient<SyncChanged>,
    /// Whom it tells that it has been drained.
    pub drained: Recipient<MonitorDrained>,
    /// Whom it tells that other types may be served now.
    pub types_changed: Recipient<ServedTypesChanged>,
    /// Whom it tells which types are defined.
    pub types_listed: Recipient<TypesListed>,
    /// Whom it tells that the store went back in time.
    pub restored: Recipient<StoreRestored>,
}

/// Watches one type, for one epoch. Thin: the list and watch runs as a task on other
/// threads, and the actor notices when it ends.
#[derive(Debug)]
pub struct Monitor {
    context: MonitorContext,
    resource: Arc<ResourceType>,
    epoch: Epoch,
    deletes_prove: DeletesProve,
    draining: watch::Sender<bool>,
    ending: CancellationToken,
    ended: CancellationToken,
}

impl Monitor {
    /// Starts a monitor.
    #[must_use]
    pub fn start(
        context: MonitorContext,
        resource: Arc<ResourceType>,
        epoch: Epoch,
        deletes_prove: DeletesProve,
    ) -> Addr<Self> {
        let (draining, _) = watch::channel(false);
        let (ending, ended) = (CancellationToken::new(), CancellationToken::new());
        Actor::start(Self { context, resource, epoch, deletes_prove, draining, ending, ended })
    }

    fn run(&self, ctx: &mut Context<Self>) {
        let feed = Feed {
            context: self.context.clone(),
            resource: Arc::clone(&self.resource),
            epoch: self.epoch,
            deletes_prove: self.deletes_prove,
            draining: self.draining.subscribe(),
        };
        let ending = self.ending.clone();
        let task = self.context.placement.monitor(async move {
            // Dropping the feed closes its watch.
            ending.run_until_cancelled(feed.run()).await
        });
        ctx.spawn(task.into_actor(self).map(|ended, monitor, ctx| match ended {
            // Stopped from outside.
            Ok(None) => ctx.stop(),
            Ok(Some(Ok(()))) => {
                monitor.context.registry.ended(&monitor.resource.group_resource);
                monitor
                    .context
                    .drained
                    .do_send(MonitorDrained(monitor.resource.group_resource.clone(), monitor.epoch));
                ctx.stop();
            }
            // The graph has ended, and the process is about to.
            Ok(Some(Err(PartitionEnded))) => ctx.stop(),
            Err(error) => {
                record::monitor_restarted();
                let resource = &monitor.resource.group_resource;
                tracing::error!(%resource, %error, "monitor failed; it starts anew");
                monitor.context.registry.failed(resource, format!("the monitor failed: {error}"));
                ctx.run_later(RESTART_AFTER, |monitor, ctx| monitor.run(ctx));
            }
        }));
    }
}

impl Actor for Monitor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.context.registry.started(&self.resource);
        self.run(ctx);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.ending.cancel();
        self.ended.cancel();
    }
}

impl Handler<Drain> for Monitor {
    type Result = ();

    fn handle(&mut self, Drain: Drain, _: &mut Self::Context) {
        self.context.registry.update(&self.resource.group_resource, |state| state.draining = true);
        self.draining.send_replace(true);
    }
}

impl Handler<Stop> for Monitor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Stop: Stop, _: &mut Self::Context) -> Self::Result {
        self.ending.cancel();
        Box::pin(self.ended.clone().cancelled_owned())
    }
}

/// The list and watch of one type on its way into the graph.
struct Feed {
    context: MonitorContext,
    resource: Arc<ResourceType>,
    epoch: Epoch,
    deletes_prove: DeletesProve,
    draining: watch::Receiver<bool>,
}

impl Feed {
    /// Runs until it has been drained.
    async fn run(self) -> Result<(), PartitionEnded> {
        let (resource, epoch, deletes_prove) = (Arc::clone(&self.resource), self.epoch, self.deletes_prove);
        self.context
            .graph
            .take_in_everywhere(|| {
                let resource = Arc::clone(&resource);
                TakeIn(vec![Intake::MonitorStarted { resource, epoch, deletes_prove }])
            })
            .await?;
        let mut lanes = Lanes::new(
            self.context.graph.clone(),
            Envelope { resource, epoch },
            self.context.graph_queue.clone(),
        );
        let start = WatchStart {
            high_water: self.context.high_water.clone(),
            aggregated: self.deletes_prove == DeletesProve::Nothing,
        };
        let mut list_watch = self.context.api.watch(Arc::clone(&self.resource), start);
        let mut progress = Progress::default();
        let mut draining = self.draining.clone();
        let mut deadline: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                result = lanes.next_applied() => {
                    result?;
                    self.applied(&lanes, &mut progress);
                }
                true = asked_to_drain(&mut draining), if deadline.is_none() => {
                    list_watch.drain();
                    deadline = Some(Instant::now() + DRAIN_AT_MOST);
                }
                () = until(deadline) => {
                    tracing::warn!(
                        resource = %self.resource.group_resource,
                        "the watch of a type that is no longer served did not end; it is closed"
                    );
                    break;
                }
                step = list_watch.next(), if lanes.has_room() => {
                    let Some(step) = step else { break };
                    self.step(step, list_watch.arrived(), &mut lanes, &mut progress);
                    lanes.flush();
                    self.applied(&lanes, &mut progress);
                }
            }
        }
        lanes.drain().await
    }

    /// Takes one step of the list and watch, which came at that moment.
    fn step(&self, step: Step, at: Instant, lanes: &mut Lanes, progress: &mut Progress) {
        let resource = &self.resource.group_resource;
        match step {
            Step::ListBegan => lanes.put(Change::ListBegan, at),
            Step::Items(items) => {
                self.notice_listed_types(&items);
                for facts in items {
                    lanes.put(Change::Seen(facts), at);
                }
            }
            Step::ListEnded { resource_version } => {
                lanes.put(Change::ListEnded { resource_version: resource_version.clone() }, at);
                progress.list_ended(resource_version);
            }
            Step::Events(sightings) => {
                self.goes_on(progress);
                for sighting in sightings {
                    self.notice_served_types(&sighting, progress);
                    let (Sighting::Seen(facts) | Sighting::Deleted(facts)) = &sighting;
                    if facts.resource_version.is_some() {
                        progress.received.clone_from(&facts.resource_version);
                    }
                    let change = match sighting {
                        Sighting::Seen(facts) => Change::Seen(facts),
                        Sighting::Deleted(facts) => Change::Deleted(facts),
                    };
                    lanes.put(change, at);
                }
            }
            // All is quiet: whatever went wrong is over. Who waits for this version to
            // be seen need not wait for an event.
            Step::Bookmark { resource_version } => {
                self.goes_on(progress);
                let behind = progress.received.as_ref().zip(resource_version.as_ref());
                if resource_version.is_some() && !behind.is_some_and(|(known, shown)| known.is_after(shown)) {
                    progress.received = resource_version;
                }
            }
            Step::WatchEnded => self.goes_on(progress),
            // Until the list that follows, nobody knows what has happened. Nothing is
            // wrong with that, but what was wrong is not over either.
            Step::Expired { error } => {
                progress.watch_failed(error.to_string());
                self.context.registry.failed(resource, error.to_string());
            }
            Step::Failed { error, retry_in } => {
                record::resource_sync_error(&resource.group, &self.resource.version, &resource.resource);
                tracing::warn!(%resource, %error, ?retry_in, "list or watch failed");
                if error.action != "LIST" {
                    progress.watch_failed(error.to_string());
                    self.context.registry.failed(resource, error.to_string());
                } else {
                    progress.list_failed();
                    if self.context.registry.lost(resource, error.to_string()) {
                        self.context.synced.do_send(SyncChanged(resource.clone()));
                    }
                }
            }
            Step::StoreRestored { seen, found } => {
                // At once: until discovery gets to it, much could be written.
                self.context.api.gate().pause();
                let detail = format!("{resource}: the list is at version {found}, {seen} had been seen");
                self.context.restored.do_send(StoreRestored { detail });
            }
        }
    }

    /// The watch goes on from where it was: whatever went wrong is over.
    fn goes_on(&self, progress: &mut Progress) {
        let resource = &self.resource.group_resource;
        progress.goes_on();
        if !progress.listed {
            self.context.registry.update(resource, |state| state.last_error = None);
        } else if self.context.registry.synced(resource, None) {
            self.context.synced.do_send(SyncChanged(resource.clone()));
        }
    }

    /// Notes how far the graph has come.
    fn applied(&self, lanes: &Lanes, progress: &mut Progress) {
        let resource = &self.resource.group_resource;
        if lanes.lists_are_applied()
            && let Some(Listed { failure }) = progress.list_applied()
        {
            self.context.registry.synced(resource, failure);
            self.context.synced.do_send(SyncChanged(resource.clone()));
        }
        if lanes.is_empty() && progress.applied != progress.received {
            progress.applied.clone_from(&progress.received);
            self.context.registry.update(resource, |state| state.applied.clone_from(&progress.applied));
        }
    }

    /// A CRD that came while nobody watched is in no event.
    fn notice_listed_types(&self, items: &[ObjectFacts]) {
        let defined =
            items.iter().filter_map(|facts| match expected(&self.resource.group_resource, facts, false) {
                Some(Expected::Served(resource)) => Some(resource),
                _ => None,
            });
        let defined: Vec<_> = defined.collect();
        if !defined.is_empty() {
            self.context.types_listed.do_send(TypesListed(defined));
        }
    }

    /// A CRD or an APIService changed: discovery should look at once.
    fn notice_served_types(&self, sighting: &Sighting, progress: &Progress) {
        if progress.applied.is_none() {
            return;
        }
        let (facts, deleted) = match sighting {
            Sighting::Seen(facts) => (facts, false),
            Sighting::Deleted(facts) => (facts, true),
        };
        if let Some(expected) = expected(&self.resource.group_resource, facts, deleted) {
            self.context.types_changed.do_send(ServedTypesChanged { expected });
        }
    }
}

/// Also true for a feed that starts anew while its type is being drained.
async fn asked_to_drain(draining: &mut watch::Receiver<bool>) -> bool {
    draining.wait_for(|draining| *draining).await.is_ok()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What discovery will show once it knows of this change, if it is one of a type
/// that defines others. A CRD is named `plural.group`, an APIService
/// `version.group`.
fn expected(resource: &GroupResource, facts: &ObjectFacts, deleted: bool) -> Option<Expected> {
    match resource.to_string().as_str() {
        "customresourcedefinitions.apiextensions.k8s.io" => {
            let named = GroupResource::parse(&facts.name);
            if deleted {
                Some(Expected::NotServed(named))
            } else {
                // While it is being deleted its objects are, and the type is still served.
                (!facts.being_deleted).then_some(Expected::Served(named))
            }
        }
        "apiservices.apiregistration.k8s.io" => {
            let (_, group) = facts.name.split_once('.')?;
            Some(Expected::Changed { group: group.into() })
        }
        _ => None,
    }
}
