//! Reads the list and watch of one type and feeds the graph.

use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{MonitorContext, Subject};
use crate::actors::batch::Batches;
use crate::actors::graph_handle::PartitionEnded;
use crate::actors::messages::{DiscoveryMessage, ExpectedDiscovery};
use kube_gc_client::{ApiError, ErrorClass, ListWatch, Phase, Step};
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::namespaces::TurnOf;
use kube_gc_core::object::{GroupResource, ObjectFacts, ResourceType, ResourceVersion};
use kube_gc_observe::telemetry::record;

/// How long the monitor of a type that is no longer served may continue: the last deletions of a
/// deleted CRD's objects may still arrive.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The list and watch of one type. Dropping it closes the watch.
pub struct Feed {
    context: MonitorContext,
    discovery: Recipient<DiscoveryMessage>,
    resource: Arc<ResourceType>,
    list_watch: ListWatch,
    batches: Batches,
    /// Everything up to this version has arrived.
    received: Option<ResourceVersion>,
    /// The graph contains everything up to this version.
    applied: Option<ResourceVersion>,
    /// Whether any list has arrived as a whole.
    listed: bool,
    /// Whether a list has arrived, and it was not reported yet that the graph has applied it. A list
    /// that fails later puts an end to that.
    is_list_new: bool,
    failures: FailureLog,
    /// Whether changes in the batches wait for more changes.
    gathering: bool,
    draining: watch::Receiver<bool>,
    /// When draining ends at the latest.
    deadline: Option<Instant>,
}

/// How a phase of a feed ended.
pub enum FeedEnd {
    /// Another phase follows, which may run on another thread.
    PhaseChanged(Phase, Box<Feed>),
    /// The feed has been drained.
    Drained,
}

impl Feed {
    /// Announces a new monitor to the graph.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn begin(
        subject: Subject,
        draining: watch::Receiver<bool>,
    ) -> Result<Box<Self>, PartitionEnded> {
        let Subject { context, discovery, resource, epoch, deletes_prove } = subject;
        let (graph, started) = (context.graph.clone(), Arc::clone(&resource));
        graph.ask_all(move |graph, _| graph.monitor_started(&started, epoch, deletes_prove)).await?;
        let batches = Batches::new(graph, Arc::clone(&resource), epoch, &context.graph_queue);
        let list_watch = context.api.watch(Arc::clone(&resource), deletes_prove);
        Ok(Box::new(Self {
            context,
            discovery,
            resource,
            list_watch,
            batches,
            received: None,
            applied: None,
            listed: false,
            is_list_new: false,
            failures: FailureLog::default(),
            gathering: false,
            draining,
            deadline: None,
        }))
    }

    /// Reads for as long as this phase lasts.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn run(mut self: Box<Self>, phase: Phase) -> Result<FeedEnd, PartitionEnded> {
        loop {
            tokio::select! {
                biased;
                result = self.batches.next_applied() => {
                    result?;
                    self.applied();
                }
                true = asked_to_drain(&mut self.draining), if self.deadline.is_none() => {
                    self.list_watch.drain();
                    self.deadline = Some(Instant::now() + DRAIN_TIMEOUT);
                }
                () = until(self.deadline) => {
                    tracing::warn!(
                        resource = %self.resource.group_resource,
                        "the watch of a type that is no longer served did not end; it is closed"
                    );
                    break;
                }
                // Sent after every other feed on this thread has read, so that a partition is woken
                // once for the changes of all types.
                () = tokio::task::yield_now(), if self.gathering => self.send(),
                step = self.list_watch.next_in(phase), if self.batches.has_room() => match step {
                    Ok(Some(step)) => {
                        self.step(step);
                        self.gathering = phase == Phase::Watch && self.batches.is_short();
                        if !self.gathering {
                            self.send();
                        }
                    }
                    Ok(None) => break,
                    Err(other) => {
                        self.send();
                        return Ok(FeedEnd::PhaseChanged(other, self));
                    }
                }
            }
        }
        self.batches.drain().await?;
        Ok(FeedEnd::Drained)
    }

    /// Sends the changes in the batches.
    fn send(&mut self) {
        self.gathering = false;
        self.batches.flush();
        self.applied();
    }

    fn step(&mut self, step: Step) {
        let at = self.list_watch.arrived();
        let resource = &self.resource.group_resource;
        match step {
            Step::Init { resource_version } => {
                self.batches.put(WatchEvent::Init { resource_version }, at);
            }
            Step::InitApply(events) => {
                for event in events {
                    self.notice(&event, true);
                    self.batches.put(event, at);
                }
            }
            Step::InitDone { resource_version } => {
                self.batches.put(WatchEvent::InitDone { resource_version: resource_version.clone() }, at);
                (self.listed, self.is_list_new) = (true, true);
                self.received = resource_version;
                self.failures.over(resource);
                self.context.registry.succeeded(resource);
            }
            Step::Events(events) => {
                self.recovered();
                for event in events {
                    self.notice(&event, false);
                    let version = event.facts().and_then(|facts| facts.resource_version.as_ref());
                    if version.is_some() {
                        self.received = version.cloned();
                    }
                    self.batches.put(event, at);
                }
            }
            // The watch works again. A version in a bookmark counts as seen, without an event.
            Step::Bookmark { resource_version } => {
                self.recovered();
                let behind = self.received.as_ref().zip(resource_version.as_ref());
                if resource_version.is_some() && !behind.is_some_and(|(known, shown)| known.is_after(shown)) {
                    self.received = resource_version;
                }
            }
            Step::WatchEnded | Step::Resumed => self.recovered(),
            // An expired watch is no failure, but the changes since are unknown until the next
            // list. So an earlier failure is not over either.
            Step::Expired { error } => self.context.registry.failed(resource, error.to_string()),
            Step::Failed { error, retry_in } => {
                record::resource_sync_error(&resource.group, &self.resource.version, &resource.resource);
                self.failures.failed(resource, &error, retry_in, self.context.api.is_unreachable());
                if error.action != "LIST" {
                    self.context.registry.failed(resource, error.to_string());
                } else {
                    self.is_list_new = false;
                    if self.context.registry.lost(resource, error.to_string()) {
                        self.discovery.do_send(DiscoveryMessage::SyncChanged(resource.clone()));
                    }
                }
            }
            Step::StoreRestored { seen, found } => {
                let detail =
                    format!("{resource}: the list is at version {found}, but version {seen} was seen before");
                self.context.api.restore_fence().report_restore(detail);
            }
        }
    }

    /// The watch continues where it was, so the failure is over.
    fn recovered(&mut self) {
        let resource = &self.resource.group_resource;
        self.failures.over(resource);
        self.context.registry.succeeded(resource);
        // A list is reported as synced when the graph has applied it.
        if self.listed && self.batches.lists_are_applied() && self.context.registry.synced(resource) {
            self.discovery.do_send(DiscoveryMessage::SyncChanged(resource.clone()));
        }
    }

    /// Reports what the graph has applied.
    fn applied(&mut self) {
        let resource = &self.resource.group_resource;
        if self.batches.lists_are_applied() && std::mem::take(&mut self.is_list_new) {
            self.context.registry.synced(resource);
            self.discovery.do_send(DiscoveryMessage::SyncChanged(resource.clone()));
        }
        if self.batches.is_empty() && self.applied != self.received {
            self.applied.clone_from(&self.received);
            self.context.registry.applied_up_to(resource, self.applied.clone());
        }
    }

    /// Reports a namespace that is being deleted, and a CRD or an APIService that changed, so that
    /// discovery runs at once.
    fn notice(&self, event: &WatchEvent, is_listed: bool) {
        let Some(facts) = event.facts() else { return };
        let (resource, is_deleted) = (&self.resource.group_resource, matches!(event, WatchEvent::Delete(_)));
        let terminating = self.context.registry.terminating();
        match &facts.namespace {
            Some(namespace) if is_deleted => terminating.gone(TurnOf::Namespace(namespace.as_str().into())),
            _ if !is_deleted => terminating.notice(resource, facts),
            _ => {}
        }
        let may_release = match &*resource.resource {
            "pods" => is_deleted,
            "persistentvolumeclaims" | "persistentvolumes" => facts.being_deleted,
            _ => false,
        };
        if may_release && resource.group.is_empty() {
            terminating.gone(TurnOf::Storage);
        }
        let message = match expected(resource, facts, is_deleted) {
            Some(ExpectedDiscovery::Served(resource)) if is_listed => DiscoveryMessage::TypeListed(resource),
            Some(expected) if self.applied.is_some() && (is_deleted || !is_listed) => {
                DiscoveryMessage::ServedTypesChanged(expected)
            }
            _ => return,
        };
        self.discovery.do_send(message);
    }
}

/// Resolves at once for a feed that starts while its type is being drained.
async fn asked_to_drain(draining: &mut watch::Receiver<bool>) -> bool {
    draining.wait_for(|draining| *draining).await.is_ok()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What discovery will show after this change of a CRD or an APIService. A CRD is named
/// `plural.group`, an APIService `version.group`.
fn expected(resource: &GroupResource, facts: &ObjectFacts, deleted: bool) -> Option<ExpectedDiscovery> {
    match resource.to_string().as_str() {
        "customresourcedefinitions.apiextensions.k8s.io" => {
            let named = GroupResource::parse(&facts.name);
            if deleted {
                Some(ExpectedDiscovery::NotServed(named))
            } else {
                // A CRD that is being deleted is still served while its objects are deleted.
                (!facts.being_deleted).then_some(ExpectedDiscovery::Served(named))
            }
        }
        "apiservices.apiregistration.k8s.io" => {
            let (_, group) = facts.name.split_once('.')?;
            Some(ExpectedDiscovery::Changed { group: group.into() })
        }
        _ => None,
    }
}

/// The consecutive failures of one type. The log has a line when they begin, and one when they end.
#[derive(Debug, Default)]
struct FailureLog(Option<Streak>);

#[derive(Debug)]
struct Streak {
    since: Instant,
    failures: u64,
    is_logged: bool,
}

impl FailureLog {
    /// Logs a failed list or watch. During an outage of the whole API server, one line stands for
    /// all types.
    fn failed(&mut self, resource: &GroupResource, error: &ApiError, retry_in: Duration, is_outage: bool) {
        let streak =
            self.0.get_or_insert_with(|| Streak { since: Instant::now(), failures: 0, is_logged: false });
        streak.failures += 1;
        // A single broken connection is normal; the next failure counts. If all connections break
        // together, the outage is logged once.
        let is_broken = streak.failures == 1 && error.class == ErrorClass::Transient && error.code.is_none();
        if streak.is_logged || is_outage || is_broken {
            tracing::debug!(%resource, %error, next_retry_seconds = retry_in.as_secs_f64(), failures = streak.failures, "list or watch failed");
        } else {
            streak.is_logged = true;
            tracing::warn!(
                %resource,
                %error,
                next_retry_seconds = retry_in.as_secs_f64(),
                "list or watch failed; further failures in a row are counted and not logged"
            );
        }
    }

    /// Logs that the type works again.
    fn over(&mut self, resource: &GroupResource) {
        if let Some(Streak { since, failures, is_logged: true }) = self.0.take() {
            let seconds = since.elapsed().as_secs_f64();
            tracing::info!(%resource, failures, seconds, "list and watch work again");
        }
    }
}
