//! Follows a resource type, stage by stage.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::action::End;
use super::machine::Machine;
use super::stage::{Listing, Stage, Streaming};
use super::step::{Phase, Step, WatchStart};
use crate::api::client::Api;
use crate::api::error::{ApiError, ErrorClass};
use crate::api::jitter::Jitter;
use crate::telemetry::EventMetrics;
use kube_gc_core::object::{ResourceType, ResourceVersion};
use kube_gc_decode::{Encoding, FactsReader, ListReader, WatchReader};

/// A watch that has not ended within this time works, even if nothing has arrived: an error,
/// such as an expired version, arrives at once, but a bookmark only once a minute.
const LIVES_AFTER: Duration = Duration::from_millis(500);

/// Follows one resource type. Dropping it ends it.
pub struct ListWatch {
    pub(super) api: Api,
    pub(super) resource: Arc<ResourceType>,
    pub(super) machine: Machine,
    pub(super) stage: Stage,
    /// Steps that are already known.
    pub(super) ready: VecDeque<Step>,
    pub(super) reader: FactsReader,
    /// The encoding to request.
    pub(super) preferred: Encoding,
    pub(super) skipped: u64,
    pub(super) draining: bool,
    /// Whether a failure was reported, and its end was not.
    pub(super) failing: bool,
    /// Changes when an outage of the API server ends.
    pub(super) recoveries: watch::Receiver<u64>,
    pub(super) jitter: Jitter,
    /// When the last part of a body arrived.
    pub(super) arrived: Instant,
    pub(super) metrics: EventMetrics,
}

impl fmt::Debug for ListWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListWatch").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Api {
    /// Follows a resource type: lists it, and watches it from there on. Sends nothing before the
    /// first [`next_in`](ListWatch::next_in).
    #[must_use]
    pub fn watch(&self, resource: Arc<ResourceType>, start: WatchStart) -> ListWatch {
        let seed = self.jitter().next();
        let metrics = EventMetrics::new(&resource.group_resource);
        let (streaming, watch) = (self.streaming_lists().clone(), self.settings().watch.clone());
        let machine = Machine::new(Arc::clone(&resource), start, streaming, watch, seed);
        ListWatch {
            api: self.clone(),
            resource,
            machine,
            stage: Stage::Idle,
            ready: VecDeque::new(),
            reader: FactsReader::default(),
            preferred: self.settings().encoding,
            skipped: 0,
            draining: false,
            failing: false,
            recoveries: self.recoveries(),
            jitter: Jitter::new(seed.rotate_left(32)),
            arrived: Instant::now(),
            metrics,
        }
    }
}

impl ListWatch {
    /// The type that it follows.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn resource(&self) -> &Arc<ResourceType> {
        &self.resource
    }

    /// When the data of the last step arrived.
    #[must_use]
    pub const fn arrived(&self) -> Instant {
        self.arrived
    }

    /// How many objects without a uid it has skipped.
    #[cfg(test)]
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Ends after the present watch: the type is no longer served, and only the last events of
    /// this watch are left. Without a watch, it ends at once.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The next step; `None` at the end after [`drain`](Self::drain). Cancel-safe.
    #[cfg(any(test, feature = "internals"))]
    pub async fn next(&mut self) -> Option<Step> {
        let mut phase = Phase::List;
        loop {
            match self.next_in(phase).await {
                Ok(step) => return step,
                Err(other) => phase = other,
            }
        }
    }

    /// The next step in this phase. Nothing of the other phase has begun when it returns, so
    /// another thread can continue.
    ///
    /// # Errors
    ///
    /// The phase that follows.
    pub async fn next_in(&mut self, phase: Phase) -> Result<Option<Step>, Phase> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                match step {
                    Step::Failed { .. } => self.failing = true,
                    Step::Resumed | Step::Events(_) | Step::Bookmark { .. } => self.failing = false,
                    _ => {}
                }
                return Ok(Some(step));
            }
            if self.draining && !matches!(self.stage, Stage::OpeningWatch { .. } | Stage::Watching { .. }) {
                self.stage = Stage::Idle;
                return Ok(None);
            }
            if let Some(other) = self.stage.phase().filter(|other| *other != phase) {
                return Err(other);
            }
            match &mut self.stage {
                Stage::Idle if self.api.is_unreachable() => self.hold(),
                Stage::Idle => self.begin(),
                Stage::Waiting(until) => {
                    // The sender lives as long as the client.
                    let recovered = tokio::select! {
                        biased;
                        Ok(()) = self.recoveries.changed() => true,
                        () = sleep_until(*until) => false,
                    };
                    self.stage = if recovered { self.go_on_soon() } else { Stage::Idle };
                }
                Stage::Held(reachable) => {
                    reachable.await;
                    // A mere suspicion resets nothing.
                    let recovered = self.recoveries.has_changed().unwrap_or_default();
                    self.recoveries.mark_unchanged();
                    self.stage = if recovered { self.go_on_soon() } else { Stage::Idle };
                }
                Stage::Checking(asking) => {
                    let result = asking.await;
                    self.stage = Stage::Idle;
                    if is_held(&result) {
                        continue;
                    }
                    let found = result.as_ref().ok().and_then(|envelope| envelope.resource_version.clone());
                    self.ready.extend(match result {
                        Ok(_) => self.machine.checked(found.as_ref()),
                        Err(error) => Some(self.machine.check_failed(error, Instant::now())),
                    });
                    self.lift_fence(found.as_ref());
                }
                Stage::OpeningList { first, since, opening } => {
                    let result = opening.await;
                    let (first, since) = (*first, *since);
                    let deadline = Instant::now() + self.api.settings().request_timeout;
                    match result {
                        Err(error) if self.is_refused_for_its_encoding(&error) => self.stage = Stage::Idle,
                        Ok(response) => {
                            let items = ListReader::new(Encoding::of(response.headers()));
                            self.stage = Stage::Listing(Listing {
                                body: response.into_body(),
                                items,
                                batch: Vec::new(),
                                unread: 0,
                                objects: 0,
                                first,
                                begun: !first,
                                since,
                                deadline,
                            });
                        }
                        Err(error) => self.end_list(Err(error)),
                    }
                }
                Stage::Listing(_) => self.read_list().await,
                Stage::OpeningStream { not_older_than, deadline, opening } => {
                    let result = opening.await;
                    let (not_older_than, deadline) = (not_older_than.take(), *deadline);
                    match result {
                        Err(error) if self.is_refused_for_its_encoding(&error) => self.stage = Stage::Idle,
                        Ok(response) => {
                            self.stage = Stage::Streaming(Box::new(Streaming {
                                events: WatchReader::new(Encoding::of(response.headers())),
                                body: response.into_body(),
                                batch: Vec::new(),
                                unread: 0,
                                begun: false,
                                not_older_than,
                                patience: Instant::now() + self.api.settings().request_timeout,
                                deadline,
                            }));
                        }
                        Err(error) => self.end_list(Err(error)),
                    }
                }
                Stage::Streaming(_) => self.read_stream().await,
                Stage::OpeningWatch { deadline, opening } => {
                    let result = opening.await;
                    let deadline = *deadline;
                    match result {
                        Err(error) if self.is_refused_for_its_encoding(&error) => self.stage = Stage::Idle,
                        Ok(response) => {
                            let events = WatchReader::new(Encoding::of(response.headers()));
                            self.stage = self.watching(deadline, response.into_body(), events);
                        }
                        Err(error) => self.end_watch(End::Failed(error)),
                    }
                }
                Stage::Watching { .. } => self.read_watch().await,
            }
        }
    }

    /// A watch that has begun.
    pub(super) fn watching(&self, deadline: Instant, body: Body, events: WatchReader) -> Stage {
        let lives = self.failing.then(|| Instant::now() + LIVES_AFTER);
        Stage::Watching { deadline, lives, body, events }
    }

    /// Raises the restore fence, if the watch ended before its time.
    pub(super) fn raise_fence(&self) {
        if self.machine.needs_check() {
            self.api.restore_fence().raise(&self.resource.group_resource);
        }
    }

    /// Lifts the restore fence after a list, unless the list failed or shows a restore.
    pub(super) fn lift_fence(&self, version: Option<&ResourceVersion>) {
        let is_restored = self.ready.iter().any(|step| matches!(step, Step::StoreRestored { .. }));
        if !is_restored && !self.machine.needs_check() {
            self.api.restore_fence().lift(&self.resource.group_resource, version);
        }
    }
}

/// Whether a request was held because the API server is unreachable.
fn is_held<T>(result: &Result<T, ApiError>) -> bool {
    matches!(result, Err(ApiError { class: ErrorClass::Deferred { .. }, .. }))
}

pub(super) fn failure(
    action: &'static str,
    resource: &ResourceType,
    class: ErrorClass,
    message: String,
) -> ApiError {
    ApiError { class, action, target: resource.group_resource.to_string(), message, code: None }
}
