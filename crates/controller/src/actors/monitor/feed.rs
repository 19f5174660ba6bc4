//! Reads the list and watch of one type and feeds the graph.

use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use tokio::sync::watch;
use tokio::time::Instant;

use super::progress::{FailureLog, Listed, Progress};
use super::{MonitorContext, Subject};
use crate::actors::batch::Batches;
use crate::actors::graph_handle::PartitionEnded;
use crate::actors::messages::{DiscoveryMessage, ExpectedDiscovery, StoreRestored};
use kube_gc_client::{ListWatch, Phase, Step, WatchStart};
use kube_gc_core::graph::{DeletesProve, Intake, WatchEvent};
use kube_gc_core::object::{GroupResource, ObjectFacts, ResourceType};
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
    progress: Progress,
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
        let began = Intake::MonitorStarted { resource: Arc::clone(&resource), epoch, deletes_prove };
        context.graph.take_in_everywhere(began).await?;
        let graph = context.graph.clone();
        let batches = Batches::new(graph, Arc::clone(&resource), epoch, &context.graph_queue);
        let start = WatchStart {
            high_water: context.api.high_water().clone(),
            aggregated: deletes_prove == DeletesProve::Nothing,
        };
        let list_watch = context.api.watch(Arc::clone(&resource), start);
        Ok(Box::new(Self {
            context,
            discovery,
            resource,
            list_watch,
            batches,
            progress: Progress::default(),
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

    /// Handles one step of the list and watch.
    fn step(&mut self, step: Step) {
        let at = self.list_watch.arrived();
        let resource = &self.resource.group_resource;
        match step {
            Step::Init { resource_version } => {
                self.batches.put(WatchEvent::Init { resource_version }, at);
            }
            Step::InitApply(events) => {
                self.notice_listed_types(&events);
                for event in events {
                    match &event {
                        WatchEvent::Apply(facts) => {
                            self.context.registry.terminating().notice(resource, facts);
                        }
                        WatchEvent::Delete(_) => self.notice_served_types(&event),
                        WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => {}
                    }
                    self.batches.put(event, at);
                }
            }
            Step::InitDone { resource_version } => {
                self.batches.put(WatchEvent::InitDone { resource_version: resource_version.clone() }, at);
                self.progress.list_ended(resource_version);
                self.failures.over(resource);
            }
            Step::Events(events) => {
                self.recovered();
                for event in events {
                    self.notice_served_types(&event);
                    if let WatchEvent::Apply(facts) = &event {
                        let resource = &self.resource.group_resource;
                        self.context.registry.terminating().notice(resource, facts);
                    }
                    let version = event.facts().and_then(|facts| facts.resource_version.as_ref());
                    if version.is_some() {
                        self.progress.received = version.cloned();
                    }
                    self.batches.put(event, at);
                }
            }
            // The watch works again. A version in a bookmark counts as seen, without an event.
            Step::Bookmark { resource_version } => {
                self.recovered();
                let behind = self.progress.received.as_ref().zip(resource_version.as_ref());
                if resource_version.is_some() && !behind.is_some_and(|(known, shown)| known.is_after(shown)) {
                    self.progress.received = resource_version;
                }
            }
            Step::WatchEnded => self.recovered(),
            Step::Resumed if self.batches.lists_are_applied() => self.recovered(),
            // The list is reported as synced when the graph has applied it.
            Step::Resumed => {
                self.progress.watched(None);
                self.failures.over(resource);
            }
            // An expired watch is no failure, but the changes since are unknown until the next
            // list. So an earlier failure is not over either.
            Step::Expired { error } => {
                self.progress.watched(Some(error.to_string()));
                self.context.registry.failed(resource, error.to_string());
            }
            Step::Failed { error, retry_in } => {
                record::resource_sync_error(&resource.group, &self.resource.version, &resource.resource);
                self.failures.failed(resource, &error, retry_in, self.context.api.is_unreachable());
                if error.action != "LIST" {
                    self.progress.watched(Some(error.to_string()));
                    self.context.registry.failed(resource, error.to_string());
                } else {
                    self.progress.list_failed();
                    if self.context.registry.lost(resource, error.to_string()) {
                        self.discovery.do_send(DiscoveryMessage::SyncChanged(resource.clone()));
                    }
                }
            }
            Step::StoreRestored { seen, found } => {
                // Writes stop at once, because Lifecycle handles the message later.
                self.context.api.gate().pause();
                let detail =
                    format!("{resource}: the list is at version {found}, but version {seen} was seen before");
                self.context.restored.do_send(StoreRestored { detail });
            }
        }
    }

    /// The watch continues where it was, so the failure is over.
    fn recovered(&mut self) {
        let resource = &self.resource.group_resource;
        self.failures.over(resource);
        self.progress.watched(None);
        if !self.progress.listed {
            self.context.registry.update(resource, |state| state.last_error = None);
        } else if self.context.registry.synced(resource, None) {
            self.discovery.do_send(DiscoveryMessage::SyncChanged(resource.clone()));
        }
    }

    /// Reports what the graph has applied.
    fn applied(&mut self) {
        let resource = &self.resource.group_resource;
        if self.batches.lists_are_applied()
            && let Some(Listed { failure }) = self.progress.list_applied()
        {
            self.context.registry.synced(resource, failure);
            self.discovery.do_send(DiscoveryMessage::SyncChanged(resource.clone()));
        }
        if self.batches.is_empty() && self.progress.applied != self.progress.received {
            self.progress.applied.clone_from(&self.progress.received);
            self.context.registry.applied_up_to(resource, self.progress.applied.clone());
        }
    }

    /// Reports the types of listed CRDs: no event shows a CRD that was created while the watch was
    /// closed.
    fn notice_listed_types(&self, events: &[WatchEvent]) {
        let listed = events.iter().filter_map(|event| match event {
            WatchEvent::Apply(facts) => expected(&self.resource.group_resource, facts, false),
            WatchEvent::Delete(_) | WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => None,
        });
        let defined = listed.filter_map(|expected| match expected {
            ExpectedDiscovery::Served(resource) => Some(resource),
            _ => None,
        });
        let defined: Vec<_> = defined.collect();
        if !defined.is_empty() {
            self.discovery.do_send(DiscoveryMessage::TypesListed(defined));
        }
    }

    /// Reports a changed CRD or APIService, so that discovery runs at once.
    fn notice_served_types(&self, event: &WatchEvent) {
        if self.progress.applied.is_none() {
            return;
        }
        let Some(facts) = event.facts() else { return };
        let deleted = matches!(event, WatchEvent::Delete(_));
        if let Some(expected) = expected(&self.resource.group_resource, facts, deleted) {
            self.discovery.do_send(DiscoveryMessage::ServedTypesChanged(expected));
        }
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
