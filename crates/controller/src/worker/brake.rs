//! Applies the brake between a decision to delete and its request, keeps its state on the Lease, and
//! records an event when deletion is paused and when it resumes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use actix::Recipient;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::actors::graph_handle::GraphHandle;
use crate::actors::pool::PoolCommand;
use crate::worker::interrupted::Interrupted;
use kube_gc_client::{Api, ApiError, Deleted, EventType};
use kube_gc_core::brake::lease::{LastRead, RESUME, inherited, write};
use kube_gc_core::brake::{DeletionResult, Engaged, Engagement, Ledger, Limits, Refusal, Ticket};
use kube_gc_core::object::{Identity, Namespace, ResourceType, Scope, Uid};
use kube_gc_core::text::listed;
use kube_gc_leader::LeaseAnnotations;
use kube_gc_observe::telemetry::record;

/// The reason of the event that deletion is paused.
pub const DELETION_PAUSED: &str = "DeletionPaused";
/// The reason of the event that it resumes.
pub const DELETION_RESUMED: &str = "DeletionResumed";

/// The reason when a deletion has to wait for the answers to others.
const NOT_YET: &str = "the brake admits no further deletion until earlier ones are answered";
/// How long to wait before an event is retried.
const LATER: Duration = Duration::from_secs(5);

/// Admits deletions until a limit is reached. Clones share one state.
#[derive(Clone, Debug)]
pub struct Brake(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    origin: Instant,
    /// Held for a few instructions at a time, by workers and by the elector.
    state: Mutex<State>,
    /// Signals that it has engaged or was released.
    changes: watch::Sender<()>,
    /// How many keys waited for it at the last count.
    held: AtomicUsize,
    /// Signals that the Lease has to be written.
    news: Notify,
}

#[derive(Debug)]
struct State {
    ledger: Ledger,
    /// How often it has been released.
    releases: u64,
    lease: LastRead,
    /// The Lease, if there is one.
    lease_identity: Option<Identity>,
}

impl Brake {
    pub fn new(limits: Limits) -> Self {
        let (ledger, lease) = (Ledger::new(limits), LastRead::default());
        Self(Arc::new(Inner {
            limits,
            origin: Instant::now(),
            state: Mutex::new(State { ledger, releases: 0, lease, lease_identity: None }),
            changes: watch::Sender::new(()),
            held: AtomicUsize::new(0),
            news: Notify::new(),
        }))
    }

    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every method of the ledger leaves it consistent, and none panics in between.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the deletion of an object. To be called before anything is done to it.
    ///
    /// # Errors
    /// When the brake is engaged, when it may engage once the requests in flight are answered, or
    /// when a partition has ended.
    pub async fn admit(&self, object: &Identity, graph: &GraphHandle) -> Result<Reservation, Interrupted> {
        let population = match self.0.limits.share {
            Some(_) => graph.population(&object.resource.group_resource).await?,
            None => 0,
        };
        match self.reserve(object, u64::try_from(population).unwrap_or(u64::MAX)) {
            Ok(reservation) => Ok(reservation),
            Err(Refusal::NotYet) => Err(Interrupted::Changed(NOT_YET)),
            Err(Refusal::Engages { .. } | Refusal::Engaged) => {
                let why = self.holds(object.namespace.as_ref());
                let why = why.unwrap_or_else(|| "deletion was paused when this was decided".to_owned());
                Err(Interrupted::Braked(why.into()))
            }
        }
    }

    fn reserve(&self, object: &Identity, population: u64) -> Result<Reservation, Refusal> {
        let mut state = self.state();
        // Under the lock, so that times do not go back.
        let now = (self.0.origin.elapsed(), SystemTime::now());
        let admitted = state.ledger.admit(object, population, now);
        if let Err(Refusal::Engages { limit, namespace, why }) = &admitted {
            record::brake_engaged_by(limit);
            self.has_engaged(&state.ledger, namespace.as_ref(), why);
        }
        let ticket = Some(admitted?);
        Ok(Reservation { brake: self.clone(), ticket, result: DeletionResult::NoEffect })
    }

    /// Engages it for a reason from outside of the ledger, for one namespace or for everything.
    pub fn engage(&self, namespace: Option<Namespace>, engagement: Engagement) {
        let mut state = self.state();
        let (here, why) = (namespace.clone(), engagement.why.clone());
        if state.ledger.engage(namespace, engagement) {
            self.has_engaged(&state.ledger, here.as_ref(), &why);
        }
    }

    fn has_engaged(&self, ledger: &Ledger, namespace: Option<&Namespace>, why: &str) {
        let of = namespace.map(|namespace| format!(" in the namespace {namespace}")).unwrap_or_default();
        tracing::warn!(
            "the brake has engaged, and kube-gc deletes nothing{of} until a person resumes it (/readyz?verbose says how): {why}"
        );
        self.has_changed(ledger);
    }

    fn has_changed(&self, ledger: &Ledger) {
        let everything = ledger.engaged().contains_key(&None);
        record::brake_engaged(everything, ledger.engaged().len() - usize::from(everything));
        self.0.changes.send_replace(());
        self.0.news.notify_one();
    }

    /// Admits deletions again, with empty windows.
    fn release(&self, reason: &'static str) {
        let mut state = self.state();
        let was_engaged = !state.ledger.engaged().is_empty();
        state.ledger.release();
        if was_engaged {
            tracing::info!(reason, "the brake is released");
            state.releases += 1;
            self.has_changed(&state.ledger);
        }
    }

    /// If objects in this namespace are not deleted: why.
    pub fn holds(&self, namespace: Option<&Namespace>) -> Option<String> {
        let state = self.state();
        let engaged = state.ledger.engaged();
        let all = engaged.get(&None).map(|engagement| format!("deletion is paused {engagement}"));
        let here = || engaged.get(&Some(namespace?.clone()));
        all.or_else(|| Some(format!("deletion in this namespace is paused {}", here()?)))
    }

    /// Where it is engaged: in these namespaces, or for `None` everywhere.
    pub fn engaged(&self) -> Vec<Option<Namespace>> {
        self.state().ledger.engaged().keys().cloned().collect()
    }

    /// If it is engaged: why, and how to resume.
    pub fn warning(&self) -> Option<String> {
        let paused = paused(self.state().ledger.engaged(), &Engaged::new())?;
        let held = self.0.held.load(Ordering::Relaxed);
        Some(format!("deletion is {paused}; {held} objects held; {}", self.resume()))
    }

    /// How to resume.
    fn resume(&self) -> String {
        match &self.state().lease_identity {
            Some(lease) => format!(
                "resume with: kubectl annotate --overwrite -n {} lease/{} {RESUME}=\"$(date)\"",
                lease.namespace.as_ref().map_or("default", |namespace| namespace.as_str()),
                lease.name
            ),
            None => "resume by a restart".to_owned(),
        }
    }

    /// Sets how many keys wait for it.
    pub fn sample(&self, held: usize) {
        self.0.held.store(held, Ordering::Relaxed);
        record::brake_held(held);
    }
}

/// What is paused that was not `before`, in words.
fn paused(engaged: &Engaged, before: &Engaged) -> Option<String> {
    let news = engaged.iter().filter(|(namespace, _)| !before.contains_key(namespace));
    let each: Vec<_> = news
        .map(|(namespace, engagement)| match namespace {
            None => format!("paused {engagement}"),
            Some(namespace) => format!("paused in the namespace {namespace} {engagement}"),
        })
        .collect();
    (!each.is_empty()).then(|| listed("; ", each.len(), &each))
}

/// The admission of one deletion, however often it is tried. Dropping it settles it.
#[derive(Debug)]
pub struct Reservation {
    brake: Brake,
    ticket: Option<Ticket>,
    result: DeletionResult,
}

impl Reservation {
    /// The request is about to be sent. If no answer comes, it may have taken effect.
    pub fn sending(&mut self) {
        self.result = DeletionResult::Unknown;
    }

    pub fn answered(&mut self, answer: &Result<Deleted, ApiError>) {
        self.result = match answer {
            Ok(Deleted::Removed | Deleted::Pending(_)) => DeletionResult::TookEffect,
            Ok(Deleted::AlreadyGone(_)) => DeletionResult::NoEffect,
            Err(error) if error.may_have_taken_effect() => DeletionResult::Unknown,
            Err(_) => DeletionResult::NoEffect,
        };
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut state = self.brake.state();
            let now = self.brake.0.origin.elapsed();
            state.ledger.settle(ticket, self.result, now);
        }
    }
}

impl LeaseAnnotations for Brake {
    fn read(&self, lease: &Lease) {
        let mut state = self.state();
        state.lease_identity = identity_of(lease);
        let engaged = !state.ledger.engaged().is_empty();
        let resumes = state.lease.read(lease.metadata.annotations.as_ref(), engaged);
        drop(state);
        if resumes {
            self.release("a person has resumed deletion with an annotation of the Lease");
        }
    }

    fn inherit(&self, lease: &Lease) {
        self.state().lease_identity = identity_of(lease);
        if !self.0.limits.is_off() {
            let inherited = inherited(lease.metadata.annotations.as_ref(), SystemTime::now());
            inherited.into_iter().for_each(|(namespace, engagement)| self.engage(namespace, engagement));
        }
    }

    fn write(&self, lease: &mut Lease) {
        write(&mut lease.metadata.annotations, self.state().ledger.engaged());
    }

    fn erase(&self, lease: &mut Lease) {
        write(&mut lease.metadata.annotations, &Engaged::new());
    }

    fn deposed(&self) {
        self.state().lease = LastRead::default();
        self.release("another replica is the leader now, and its brake applies");
    }

    fn news(&self) -> BoxFuture<'_, ()> {
        self.0.news.notified().boxed()
    }
}

/// Follows the brake: records events, and wakes the keys that it held. To be run as a task.
pub async fn tell(brake: Brake, api: Api, pools: Vec<Recipient<PoolCommand>>) {
    let mut changes = brake.0.changes.subscribe();
    let mut told = (Engaged::new(), 0);
    loop {
        changes.mark_unchanged();
        let (engaged, releases) = brake.shown();
        let (mut resumed, mut before) = (None, told.0);
        if releases != told.1 {
            pools.iter().for_each(|pool| pool.do_send(PoolCommand::WakeBraked));
            // It may have engaged again since.
            resumed = paused(&before, &Engaged::new());
            before = Engaged::new();
        }
        let resumed = resumed
            .map(|what| (EventType::Normal, DELETION_RESUMED, format!("deletion is resumed; it was {what}")));
        let paused = paused(&engaged, &before).map(|what| {
            (EventType::Warning, DELETION_PAUSED, format!("deletion is {what}; {}", brake.resume()))
        });
        for (kind, reason, message) in resumed.into_iter().chain(paused) {
            while !brake.record(&api, kind, reason, &message).await {
                // A newer state makes it pointless.
                if timeout(LATER, changes.changed()).await.is_ok() {
                    changes.mark_changed();
                    break;
                }
            }
        }
        told = (engaged, releases);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

impl Brake {
    /// Where it is engaged, and how often it has been released.
    fn shown(&self) -> (Engaged, u64) {
        let state = self.state();
        (state.ledger.engaged().clone(), state.releases)
    }

    /// Creates an event. False if that is worth another try, for example because this is a standby
    /// that is about to lead.
    async fn record(&self, api: &Api, kind: EventType, reason: &'static str, message: &str) -> bool {
        let lease = self.state().lease_identity.clone();
        let Some(about) = lease.or_else(|| ourselves(|name| std::env::var(name).ok())) else { return true };
        api.has_told(&about, kind, reason, message).await
    }
}

/// The object of an event when there is no Lease: the pod, as the downward API names it, or else
/// the namespace kube-system, which always exists.
fn ourselves(variable: impl Fn(&str) -> Option<String>) -> Option<Identity> {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    match (variable("POD_NAMESPACE"), variable("POD_NAME")) {
        (Some(namespace), Some(name)) => {
            let uid = variable("POD_UID").unwrap_or_else(|| name.clone());
            identity("pods", "Pod", Some(&namespace), &name, &uid)
        }
        _ => identity("namespaces", "Namespace", None, "kube-system", "kube-system"),
    }
}

/// The Lease as the object of events.
fn identity_of(Lease { metadata, .. }: &Lease) -> Option<Identity> {
    let (name, uid) = (metadata.name.as_deref()?, metadata.uid.as_deref()?);
    identity("leases.coordination.k8s.io", "Lease", Some(metadata.namespace.as_deref()?), name, uid)
}

fn identity(resource: &str, kind: &str, namespace: Option<&str>, name: &str, uid: &str) -> Option<Identity> {
    let scope = if namespace.is_some() { Scope::Namespaced } else { Scope::Cluster };
    let (resource, namespace) =
        (ResourceType::of(resource, "v1", kind, scope), namespace.and_then(Namespace::parse));
    Some(Identity { resource, namespace, name: name.into(), uid: Uid::parse(uid)? })
}

#[cfg(test)]
mod tests;
