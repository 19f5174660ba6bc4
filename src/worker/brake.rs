//! Applies the brake between a decision to delete and its request.

mod events;
mod notes;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::actors::graph_handle::GraphHandle;
use crate::api::{ApiError, Deleted};
use crate::telemetry::record;
use crate::worker::interrupted::Interrupted;
use kube_gc_core::brake::lease::{LastRead, RESUME};
use kube_gc_core::brake::{Admission, DeletionResult, Ledger, Limits, Ticket};
use kube_gc_core::object::{Identity, Namespace};
use kube_gc_core::text::listed;

pub(crate) use events::tell;
#[cfg(test)]
pub use events::{DELETION_PAUSED, DELETION_RESUMED};

/// Admits deletions until a limit is reached. Clones share one state.
#[derive(Clone, Debug)]
pub struct Brake(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    origin: Instant,
    /// Held for a few instructions at a time, by workers and by the elector.
    ledger: Mutex<Ledger>,
    state: watch::Sender<State>,
    /// How many keys waited for it at the last count.
    held: AtomicUsize,
    lease: Mutex<LeaseSide>,
    /// Signals that the Lease has to be written.
    news: Notify,
}

/// The state of the Lease, as far as the brake needs it.
#[derive(Debug, Default)]
struct LeaseSide {
    seen: LastRead,
    /// The Lease, if there is one.
    identity: Option<Identity>,
}

/// Whether the brake is engaged.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// For everything.
    pub(crate) engaged: Option<Arc<Engagement>>,
    /// For single namespaces.
    pub(crate) namespaces: BTreeMap<Namespace, Arc<Engagement>>,
    /// How often it has been released.
    pub(crate) releases: u64,
}

impl State {
    /// What is paused that `told` does not have, in words.
    fn paused_since(&self, told: &Self) -> Option<String> {
        let all = self.engaged.iter().filter(|_| told.engaged.is_none());
        let all = all.map(|engagement| format!("paused {engagement}"));
        let new = self.namespaces.iter().filter(|(namespace, _)| !told.namespaces.contains_key(*namespace));
        let some =
            new.map(|(namespace, engagement)| format!("paused in the namespace {namespace} {engagement}"));
        let each: Vec<_> = all.chain(some).collect();
        (!each.is_empty()).then(|| listed("; ", each.len(), &each))
    }

    /// What is paused, in words.
    fn paused(&self) -> Option<String> {
        self.paused_since(&Self::default())
    }
}

/// Why deletion is paused, and since when.
#[derive(Debug, PartialEq, Eq)]
pub struct Engagement {
    /// When the brake engaged.
    pub since: SystemTime,
    /// The reason, as text.
    pub why: String,
}

impl std::fmt::Display for Engagement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "since {}: {}", humantime::format_rfc3339_seconds(self.since), self.why)
    }
}

/// The reason when a deletion has to wait for the answers to others.
const NOT_YET: &str = "the brake admits no further deletion until earlier ones are answered";

impl Brake {
    /// A brake with these limits.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner {
            limits,
            origin: Instant::now(),
            ledger: Mutex::new(Ledger::new(limits)),
            state: watch::Sender::new(State::default()),
            held: AtomicUsize::new(0),
            lease: Mutex::default(),
            news: Notify::new(),
        }))
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Every method of the ledger leaves it consistent, and none panics in between.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease(&self) -> MutexGuard<'_, LeaseSide> {
        self.0.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.0.origin.elapsed()
    }

    /// Admits the deletion of an object. To be called before anything is done to it.
    ///
    /// # Errors
    /// When the brake is engaged, when it may engage once the requests in flight are answered, or
    /// when a partition has ended.
    pub async fn admit(&self, object: &Identity, graph: &GraphHandle) -> Result<Reservation, Interrupted> {
        if self.0.limits.is_off() {
            return Ok(Reservation { brake: self.clone(), ticket: None, result: DeletionResult::NoEffect });
        }
        let admission = match self.ask(object, None) {
            Admission::PopulationNeeded => {
                let count = graph.population(&object.resource.group_resource).await?;
                self.ask(object, Some(u64::try_from(count).unwrap_or(u64::MAX)))
            }
            admission => admission,
        };
        match admission {
            Admission::Granted(ticket) => Ok(Reservation {
                brake: self.clone(),
                ticket: Some(ticket),
                result: DeletionResult::NoEffect,
            }),
            // With the population given, the ledger does not ask for it again.
            Admission::PopulationNeeded | Admission::NotYet => Err(Interrupted::Changed(NOT_YET)),
            Admission::Engages(_) | Admission::Refused => {
                let why = self.holds(object.namespace.as_ref());
                let why = why.unwrap_or_else(|| "deletion was paused when this was decided".to_owned());
                Err(Interrupted::Braked(why.into()))
            }
        }
    }

    fn ask(&self, object: &Identity, population: Option<u64>) -> Admission {
        let mut ledger = self.ledger();
        // Under the lock, so that times do not go back.
        let now = self.now();
        let admission = ledger.admit(
            &object.uid,
            &object.resource.group_resource,
            object.namespace.as_ref(),
            population,
            now,
        );
        if let Admission::Engages(cause) = &admission {
            record::brake_engaged_by(cause.limit());
            self.engage(cause.namespace(), Engagement { since: SystemTime::now(), why: cause.to_string() });
        }
        admission
    }

    /// Engages it for a reason from outside of the ledger, for one namespace or for everything.
    pub(crate) fn engage_by(&self, namespace: Option<&Namespace>, engagement: Engagement) {
        let mut ledger = self.ledger();
        ledger.engage(namespace);
        self.engage(namespace, engagement);
    }

    /// If objects in this namespace are not deleted: why.
    pub fn holds(&self, namespace: Option<&Namespace>) -> Option<String> {
        let state = self.0.state.borrow();
        let all = state.engaged.as_ref().map(|engagement| format!("deletion is paused {engagement}"));
        let here = || state.namespaces.get(namespace?);
        all.or_else(|| Some(format!("deletion in this namespace is paused {}", here()?)))
    }

    /// Publishes that the ledger has engaged. Idempotent.
    fn engage(&self, namespace: Option<&Namespace>, engagement: Engagement) {
        let news = self.0.state.send_if_modified(|state| {
            let what = match namespace {
                None if state.engaged.is_some() => return false,
                None => "nothing".to_owned(),
                Some(namespace) if state.namespaces.contains_key(namespace) => return false,
                Some(namespace) => format!("nothing in the namespace {namespace}"),
            };
            tracing::warn!(
                "the brake has engaged, and kube-gc deletes {what} until a person resumes it (/readyz?verbose says how): {}",
                engagement.why
            );
            let engagement = Arc::new(engagement);
            match namespace {
                None => state.engaged = Some(engagement),
                Some(namespace) => drop(state.namespaces.insert(namespace.clone(), engagement)),
            }
            true
        });
        if news {
            self.record();
            self.0.news.notify_one();
        }
    }

    fn record(&self) {
        let state = self.0.state.borrow();
        record::brake_engaged(state.engaged.is_some(), state.namespaces.len());
    }

    /// Admits deletions again, with empty windows.
    fn release(&self, reason: &'static str) {
        let mut ledger = self.ledger();
        ledger.release();
        let news = self.0.state.send_if_modified(|state| {
            let (all, some) = (state.engaged.take(), std::mem::take(&mut state.namespaces));
            let news = all.is_some() || !some.is_empty();
            state.releases += u64::from(news);
            news
        });
        drop(ledger);
        if news {
            tracing::info!(reason, "the brake is released");
            self.record();
            self.0.news.notify_one();
        }
    }

    pub(crate) fn state(&self) -> watch::Receiver<State> {
        self.0.state.subscribe()
    }

    /// If it is engaged: why, and how to resume.
    pub fn warning(&self) -> Option<String> {
        let paused = self.0.state.borrow().paused()?;
        let held = self.0.held.load(Ordering::Relaxed);
        Some(format!("deletion is {paused}; {held} objects held; {}", self.resume()))
    }

    /// How to resume.
    fn resume(&self) -> String {
        match &self.lease().identity {
            Some(lease) => format!(
                "resume with: kubectl annotate --overwrite -n {} lease/{} {RESUME}=\"$(date)\"",
                lease.namespace.as_ref().map_or("default", |namespace| namespace.as_str()),
                lease.name
            ),
            None => "resume by a restart".to_owned(),
        }
    }

    /// Sets how many keys wait for it.
    pub(crate) fn sample(&self, held: usize) {
        self.0.held.store(held, Ordering::Relaxed);
        record::brake_held(held);
    }
}

/// The admission of one deletion, however often it is tried. Dropping it settles it.
#[derive(Debug)]
pub struct Reservation {
    brake: Brake,
    /// `None`: there is no limit.
    ticket: Option<Ticket>,
    result: DeletionResult,
}

impl Reservation {
    /// The request is about to be sent. If no answer comes, it may have taken effect.
    pub fn sending(&mut self) {
        self.result = DeletionResult::Unknown;
    }

    /// It was answered.
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
            let mut ledger = self.brake.ledger();
            let now = self.brake.now();
            ledger.settle(ticket, self.result, now);
        }
    }
}

#[cfg(test)]
mod tests;
