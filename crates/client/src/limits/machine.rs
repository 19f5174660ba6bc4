//! What the limits know, as plain data: callers tell the time, and nothing waits here.
//!
//! - A [`Window`] says how many requests about objects may be in flight to one server.
//! - [`Compartments`] keep requests that hang from occupying all slots and workers.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::call::{Answer, Call};
use crate::error::{ApiError, ErrorClass};
use crate::settings::Verb;
use kube_gc_core::object::GroupResource;

/// What the end of a request about an object shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The server handled it, whatever the result.
    Served,
    Rejected,
    /// It got no answer, or the server failed.
    Failed(&'a ApiError),
    NotSent,
}

impl<'a> Outcome<'a> {
    pub fn of(result: &'a Result<Answer, ApiError>) -> Self {
        match result {
            Ok(_) => Self::Served,
            Err(error) if error.says_too_busy() => Self::Rejected,
            Err(error) if error.class == ErrorClass::Transient => Self::Failed(error),
            Err(error) if error.code.is_some() || error.class == ErrorClass::TooLong => Self::Served,
            Err(_) => Self::NotSent,
        }
    }
}

/// The limit at first: as many requests as the built-in collector has in flight
/// (`--concurrent-gc-syncs`).
pub const START: usize = 20;
/// The step up to the load of the last rejection takes this many times the usual number of successes.
const CAUTION: usize = 16;
/// The pause after a single request in flight was rejected.
pub const REST: Duration = Duration::from_millis(100);

/// How many requests may be in flight to one server: additive increase, multiplicative decrease, like
/// TCP's congestion window.
///
/// The limit doubles with each round trip until the first rejection. After that it grows by one per
/// round trip, and a rejection halves it. It does not start without bounds, because each concurrent
/// request needs a connection with a TLS handshake. The step to the load that was rejected last is
/// taken slowly: a server that can handle a single request would otherwise reject one of every three.
#[derive(Debug)]
pub struct Window {
    limit: usize,
    /// The number of rejections that took effect.
    epoch: u64,
    /// Requests served since the last change while the limit was reached.
    served: usize,
    /// The load at the last rejection; `None` once the limit has grown beyond it.
    rejected_at: Option<usize>,
    /// The end of the last pause.
    resumes: Option<Instant>,
}

impl Window {
    pub const fn new() -> Self {
        Self { limit: START, epoch: 0, served: 0, rejected_at: None, resumes: None }
    }

    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// When a request is sent, counted in rejections.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The end of the present pause.
    pub fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.resumes.filter(|resumes| *resumes > now)
    }

    /// Adjusts the limit to the end of a request that was sent in this epoch. `load` is the number of
    /// requests in flight, with this one. Returns whether this was a rejection that counts.
    ///
    /// A request that was sent before the last rejection says nothing new: it met the same load.
    pub fn record(&mut self, epoch: u64, outcome: Outcome<'_>, load: usize, now: Instant) -> bool {
        let is_current = epoch == self.epoch;
        match outcome {
            Outcome::Served => {
                // Only a limit that is reached shows whether the server can take more.
                if is_current && load >= self.limit {
                    self.served();
                }
                false
            }
            Outcome::Rejected if is_current => {
                self.rejected(load, now);
                true
            }
            // Failures have other causes than the load, and holding requests back would add to the delay.
            Outcome::Rejected | Outcome::Failed(_) | Outcome::NotSent => false,
        }
    }

    fn served(&mut self) {
        self.served += 1;
        let next = self.limit + 1;
        let needed = match self.rejected_at {
            _ if self.epoch == 0 => 1,
            Some(load) if load == next => self.limit * CAUTION,
            Some(_) | None => self.limit,
        };
        if self.served >= needed {
            self.limit = next;
            self.served = 0;
            self.rejected_at = self.rejected_at.filter(|load| *load >= next);
        }
    }

    fn rejected(&mut self, load: usize, now: Instant) {
        self.epoch += 1;
        self.served = 0;
        // If the limit was not reached, what was in flight is halved.
        let load = self.limit.min(load.max(1));
        self.rejected_at = Some(load);
        if self.limit > 1 {
            self.limit = (load / 2).max(1);
        } else {
            self.resumes = Some(now + REST);
        }
    }
}

/// A request that takes longer hangs, more often in a webhook than in the API server.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// The patience in a namespace that is not known, while requests of that type and verb hang in other
/// namespaces. A hundred such namespaces must not block workers for a hundred seconds.
pub const LITTLE_PATIENCE: Duration = Duration::from_millis(125);
/// A failure after this time suspends a compartment.
pub const SLOW: Duration = Duration::from_secs(2);
/// How many requests of a compartment may be in flight while one of them hangs.
const SHARE: usize = 4;
/// How many requests of all compartments that are known to hang may be in flight.
const KNOWN_AT_MOST: usize = 64;
/// How many requests may hang before requests in unknown namespaces wait. Less than the number of
/// workers that a pool replaces.
const UNKNOWN_AT_MOST: usize = 96;
/// The greatest number of compartments.
const COMPARTMENTS: usize = 4096;
/// The pause of a compartment after a slow failure.
pub const PAUSE: Duration = Duration::from_secs(1);
/// A compartment of which nobody has asked for this long after its failure is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// Requests that the same webhook may delay: an admission webhook is called for one type and verb in
/// some namespaces, and a conversion webhook for one type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Compartment {
    resource: GroupResource,
    verb: Verb,
    namespace: Option<Box<str>>,
}

impl Compartment {
    pub fn of(call: &Call<'_>) -> Self {
        let namespace = call.object.and_then(|object| object.namespace).map(Into::into);
        Self { resource: call.resource.clone(), verb: call.verb, namespace }
    }

    /// Whether it differs in the namespace at most.
    fn is_like(&self, other: &Self) -> bool {
        self.verb == other.verb && self.resource == other.resource
    }
}

/// Why a request is not sent, and when to retry it.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub retry_after: Duration,
    pub why: String,
}

/// A request that may be sent.
#[derive(Debug)]
pub struct Admitted {
    of: Compartment,
    name: String,
    began: Instant,
    /// How long it may take before it hangs.
    pub patience: Duration,
    /// Whether it is counted as one that hangs.
    is_counted: bool,
}

/// The compartments in which requests hang, and beside these the ones that answer in time.
///
/// This is the bulkhead pattern, with a circuit breaker in each compartment: while requests of a
/// compartment hang, few may be in flight. After one has failed slowly, one at a time is sent, until one is
/// answered.
#[derive(Debug, Default)]
pub struct Compartments(HashMap<Compartment, Entry>);

/// A compartment. Without trouble, it has answered in time while others of its type and verb hung.
#[derive(Debug, Default)]
struct Entry {
    /// The number of requests that hang or are expected to.
    hanging: usize,
    /// The last slow failure, if nothing was answered since.
    failure: Option<Failure>,
}

/// A request that failed slowly.
#[derive(Debug)]
struct Failure {
    at: Instant,
    took: Duration,
    error: String,
    name: String,
}

impl Entry {
    const fn is_trouble(&self) -> bool {
        self.hanging > 0 || self.failure.is_some()
    }

    fn check(&self, name: &str, now: Instant) -> Result<(), Refusal> {
        let Some(Failure { at, took, error, name: last }) = &self.failure else {
            if self.hanging < SHARE {
                return Ok(());
            }
            let why = format!(
                "{} requests of this type and verb in this namespace have not been answered for \
                 {PATIENCE:?} or longer",
                self.hanging
            );
            return Err(Refusal { retry_after: PATIENCE, why });
        };
        // An object whose requests always hang must not be the only one that is tried. Others ask again
        // within the time that its request took.
        let resumes = *at + PAUSE + if last == name { *took } else { Duration::ZERO };
        if self.hanging == 0 && now >= resumes {
            return Ok(());
        }
        let retry_after = if now < resumes { resumes - now } else { *took };
        let why = format!(
            "requests of this type and verb in this namespace are suspended, because one failed after \
             {:.1} s: {error}",
            took.as_secs_f32()
        );
        Err(Refusal { retry_after, why })
    }
}

impl Compartments {
    /// The number of those in which requests hang or have failed slowly.
    pub fn troubled(&self) -> usize {
        self.0.values().filter(|entry| entry.is_trouble()).count()
    }

    /// Whether requests of this type and verb are in trouble in any namespace.
    fn is_suspect(&self, of: &Compartment) -> bool {
        self.0.iter().any(|(other, entry)| other.is_like(of) && entry.is_trouble())
    }

    /// Whether a request about an object of this name would be admitted, and how long it may take before
    /// it hangs.
    pub fn check(&self, of: &Compartment, name: &str, now: Instant) -> Result<Duration, Refusal> {
        let is_suspect = self.is_suspect(of);
        let (patience, at_most) = match self.0.get(of) {
            // It is expected to hang, too: it gets no patience, and occupies no worker and no slot.
            Some(entry) if entry.is_trouble() => {
                entry.check(name, now)?;
                (Duration::ZERO, KNOWN_AT_MOST)
            }
            None if is_suspect => (LITTLE_PATIENCE, UNKNOWN_AT_MOST),
            Some(_) | None => return Ok(PATIENCE),
        };
        let hanging: usize = self.0.values().map(|entry| entry.hanging).sum();
        if hanging < at_most {
            return Ok(patience);
        }
        let why =
            format!("{hanging} requests in other namespaces have not been answered yet, so this one waits");
        Err(Refusal { retry_after: PATIENCE, why })
    }

    /// Admits a request, right before it is sent.
    pub fn admit(&mut self, of: Compartment, name: &str, now: Instant) -> Result<Admitted, Refusal> {
        let patience = self.check(&of, name, now)?;
        let trouble = self.0.get_mut(&of).filter(|entry| entry.is_trouble());
        let is_counted = trouble.map(|entry| entry.hanging += 1).is_some();
        Ok(Admitted { of, name: name.to_owned(), began: now, patience, is_counted })
    }

    /// A request took longer than its patience.
    pub fn hangs(&mut self, request: &mut Admitted, now: Instant) {
        if !request.is_counted
            && let Some(entry) = self.entry(&request.of, now)
        {
            entry.hanging += 1;
            request.is_counted = true;
        }
    }

    /// A request has ended, or is not waited for any more.
    pub fn end(&mut self, request: &Admitted, outcome: Outcome<'_>, now: Instant) {
        let Admitted { of, name, began, is_counted, .. } = request;
        let took = now - *began;
        let was_trouble = self.0.get(of).is_some_and(Entry::is_trouble);
        match outcome {
            Outcome::NotSent => {}
            Outcome::Failed(error) if took >= SLOW => {
                if let Some(entry) = self.entry(of, now) {
                    let (error, name) = (error.to_string(), name.clone());
                    entry.failure = Some(Failure { at: now, took, error, name });
                }
            }
            Outcome::Failed(_) | Outcome::Served | Outcome::Rejected => {
                if let Some(entry) = self.0.get_mut(of) {
                    entry.failure = None;
                }
            }
        }
        if let Some(entry) = self.0.get_mut(of) {
            entry.hanging -= usize::from(*is_counted && entry.hanging > 0);
            if entry.is_trouble() {
                return;
            }
        }
        if took < PATIENCE && matches!(outcome, Outcome::Served | Outcome::Rejected) {
            if self.0.len() < COMPARTMENTS && self.is_suspect(of) {
                self.0.entry(of.clone()).or_default();
                return;
            }
        } else if !was_trouble {
            return;
        }
        self.0.remove(of);
        self.forget_like(of);
    }

    /// Who answers in time matters only while others of the same type and verb do not.
    fn forget_like(&mut self, of: &Compartment) {
        if !self.is_suspect(of) {
            self.0.retain(|other, _| !other.is_like(of));
        }
    }

    /// Forgets all failures: they had another cause.
    pub fn resume(&mut self) {
        self.0.values_mut().for_each(|entry| entry.failure = None);
        self.0.retain(|_, entry| entry.is_trouble());
    }

    /// The compartment. It is created unless there are too many.
    fn entry(&mut self, of: &Compartment, now: Instant) -> Option<&mut Entry> {
        if !self.0.contains_key(of) {
            let is_over = |failure: &Failure| now > failure.at + failure.took + FORGOTTEN_AFTER;
            self.0.retain(|_, entry| entry.hanging > 0 || !entry.failure.as_ref().is_some_and(is_over));
            if self.0.len() >= COMPARTMENTS {
                self.0.retain(|_, entry| entry.is_trouble());
            }
            if self.0.len() >= COMPARTMENTS {
                return None;
            }
        }
        Some(self.0.entry(of.clone()).or_default())
    }
}

#[cfg(test)]
mod tests;
