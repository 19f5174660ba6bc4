//! Keeps requests that hang from occupying all workers and slots.
//!
//! An admission webhook is called for one type and verb in some namespaces, and a conversion
//! webhook for one type. So hanging requests are tracked by type, namespace and verb: a
//! *compartment*. This is the bulkhead pattern, with a circuit breaker in each compartment:
//!
//! - A request that is not answered within [`PATIENCE`] hangs. It goes on, but it releases
//!   its concurrency slot, and another worker takes the place of its worker.
//! - While requests of a compartment hang, it has at most [`SHARE`] requests in flight.
//! - After a request failed that took [`SLOW`] or longer, the compartment's circuit opens: no
//!   request is sent for one to thirty seconds. Then a single request probes.
//! - All compartments that are known to hang have at most [`KNOWN_AT_MOST`] requests in flight
//!   together. Where a type and verb hang in some namespaces, requests in the other namespaces
//!   get less patience, and wait when [`UNKNOWN_AT_MOST`] requests hang.
//!
//! A request that is held back for one of these reasons fails with
//! [`Deferred`](ErrorClass::Deferred). The error names the failure of the other object. It does
//! not count as an attempt.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::call::Call;
use super::error::{ApiError, ErrorClass};
use super::settings::Verb;
use crate::telemetry::record;
use kube_gc_core::object::GroupResource;

/// A request that takes longer hangs, more often in a webhook than in the API server.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The patience in a namespace that is not known, while requests of that type and verb hang in
/// other namespaces. A hundred such namespaces must not block workers for a hundred seconds.
const LITTLE_PATIENCE: Duration = Duration::from_millis(125);
/// A failure after this time opens the circuit.
const SLOW: Duration = Duration::from_secs(2);
/// How many requests of a compartment may be in flight while one of them hangs.
const SHARE: usize = 4;
/// How many requests of all compartments that are known to hang may be in flight.
const KNOWN_AT_MOST: usize = 64;
/// How many requests may hang before requests in unknown namespaces wait. Less than the number
/// of workers that a pool replaces.
const UNKNOWN_AT_MOST: usize = 96;
/// The greatest number of compartments.
const COMPARTMENTS: usize = 4096;
/// How long a circuit stays open after the first slow failure; doubled with each probe that
/// fails.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest time that a circuit stays open.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The compartments in which requests hang. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(super) struct Bulkhead(Arc<Mutex<State>>);

/// What the end of a request says about its compartment.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// It was answered, possibly with an error.
    Answered,
    /// It failed with a transient error.
    Failed(&'a ApiError),
    /// It was not sent.
    NotSent,
}

impl<'a> End<'a> {
    pub fn of<T>(result: &'a Result<T, ApiError>) -> Self {
        match result {
            Ok(_) => Self::Answered,
            Err(error) => match error.class {
                ErrorClass::Transient => Self::Failed(error),
                ErrorClass::GateClosed
                | ErrorClass::Fenced
                | ErrorClass::DryRun
                | ErrorClass::Deferred { .. } => Self::NotSent,
                _ => Self::Answered,
            },
        }
    }
}

/// Admits one request to its compartment. Dropping it frees what it occupies.
#[derive(Debug)]
pub(super) struct CompartmentGuard {
    bulkhead: Bulkhead,
    compartment: Compartment,
    admitted: Admitted,
    began: Instant,
}

impl Bulkhead {
    fn state(&self) -> MutexGuard<'_, State> {
        // No change can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the request would not be admitted now.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, call: &Call<'_>) -> Result<(), ApiError> {
        let mut state = self.state();
        if state.is_idle() {
            return Ok(());
        }
        let refused = state.check(&Compartment::of(call), call.object_name(), Instant::now());
        drop(state);
        refused.map_err(|refusal| deferred(call, refusal))
    }

    /// Admits a request, right before it is sent.
    ///
    /// # Errors
    /// Why it must not be sent.
    pub fn admit(&self, call: &Call<'_>) -> Result<CompartmentGuard, ApiError> {
        let (began, compartment) = (Instant::now(), Compartment::of(call));
        let admitted = self.state().admit(&compartment, call.object_name(), began);
        match admitted {
            Ok(admitted) => Ok(CompartmentGuard { bulkhead: self.clone(), compartment, admitted, began }),
            Err(refusal) => Err(deferred(call, refusal)),
        }
    }

    /// Closes all circuits: what failed was the API server as a whole, which is reachable again.
    pub fn close_circuits(&self) {
        self.state().close_circuits();
    }
}

impl CompartmentGuard {
    /// How long the request may take before it hangs.
    pub const fn patience(&self) -> Duration {
        self.admitted.patience
    }

    /// The request hangs: calls the hooks of its task.
    pub fn hangs(&mut self) {
        self.bulkhead.state().hangs(&self.compartment, &mut self.admitted, Instant::now());
        HangHook::call();
    }

    /// Notes the end of the request.
    pub fn end(self, end: End<'_>) {
        let now = Instant::now();
        self.bulkhead.state().end(&self.compartment, &self.admitted, self.began, now, end);
    }
}

impl Drop for CompartmentGuard {
    fn drop(&mut self) {
        self.bulkhead.state().leave(&self.compartment, &self.admitted);
    }
}

/// Why a request is not sent, and when to retry it.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    retry_after: Duration,
    why: String,
}

fn deferred(call: &Call<'_>, Refusal { retry_after, why }: Refusal) -> ApiError {
    record::request_deferred("hanging");
    call.error(ErrorClass::Deferred { retry_after, unborn: false }, format!("not sent: {why}"), None)
}

/// Requests that the same webhooks may delay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Compartment {
    resource: GroupResource,
    namespace: Option<Box<str>>,
    verb: Verb,
}

impl Compartment {
    pub fn of(call: &Call<'_>) -> Self {
        let namespace = call.object.and_then(|object| object.namespace).map(Into::into);
        Self { resource: call.resource.clone(), namespace, verb: call.verb }
    }

    fn kind(&self) -> (GroupResource, Verb) {
        (self.resource.clone(), self.verb)
    }
}

/// How a request was admitted.
#[derive(Debug)]
struct Admitted {
    pub patience: Duration,
    /// Whether it is counted as one that hangs.
    counted: bool,
    /// Whether it probes a compartment whose circuit is open.
    probes: bool,
}

/// All compartments in which requests hang or have hung.
#[derive(Debug, Default)]
struct State {
    compartments: HashMap<Compartment, Entry>,
    /// The number of compartments of each type and verb.
    kinds: HashMap<(GroupResource, Verb), usize>,
    /// Compartments that answered in time while others of the same type and verb hung.
    quick: HashSet<Compartment>,
    /// The number of requests that hang or are expected to.
    hanging: usize,
}

/// A compartment. It is removed when nothing hangs and its circuit is closed.
#[derive(Debug, Default)]
struct Entry {
    hanging: usize,
    open: Option<Open>,
}

/// An open circuit.
#[derive(Debug)]
struct Open {
    since: Instant,
    until: Instant,
    wait: Duration,
    /// How long the request took that failed last.
    took: Duration,
    error: ApiError,
    /// When the probe that is in flight began.
    probe: Option<Instant>,
    /// The object whose request probed last, and whether requests of other objects wait.
    last: String,
    others_wait: bool,
}

impl Open {
    /// `None` if this request may probe now.
    fn refusal(&mut self, name: &str, now: Instant) -> Option<Refusal> {
        let is_last = self.last == name;
        self.others_wait |= !is_last;
        let wait = match self.probe {
            _ if now < self.until => self.until - now,
            // A probe is answered soon, or it takes as long as the last failure.
            Some(probe) => {
                let age = now.saturating_duration_since(probe);
                let end = if age < PATIENCE { PATIENCE } else { self.took };
                end.saturating_sub(age).max(PATIENCE / 10)
            }
            // An object whose requests always hang must not be the only one that probes.
            None if is_last && self.others_wait && now < self.until + PATIENCE => self.until + PATIENCE - now,
            None => return None,
        };
        let (took, error) = (self.took.as_secs_f32(), &self.error);
        let why = format!(
            "requests of this type and verb in this namespace are suspended, because one failed after \
             {took:.1} s: {error}"
        );
        Some(Refusal { retry_after: wait, why })
    }
}

impl State {
    /// Whether nothing hangs, which is the usual state.
    pub fn is_idle(&self) -> bool {
        self.compartments.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.compartments.len()
    }

    /// Whether a request about an object of this name would be admitted.
    pub fn check(&mut self, of: &Compartment, name: &str, now: Instant) -> Result<(), Refusal> {
        if let Some(entry) = self.compartments.get_mut(of) {
            if let Some(open) = &mut entry.open {
                if let Some(refusal) = open.refusal(name, now) {
                    return Err(refusal);
                }
            } else if entry.hanging >= SHARE {
                let why = format!(
                    "{} requests of this type and verb in this namespace have not been answered for {PATIENCE:?} or longer",
                    entry.hanging
                );
                return Err(Refusal { retry_after: PATIENCE, why });
            }
            return self.has_room(KNOWN_AT_MOST);
        }
        let is_suspicious = self.kinds.contains_key(&of.kind()) && !self.quick.contains(of);
        if is_suspicious { self.has_room(UNKNOWN_AT_MOST) } else { Ok(()) }
    }

    fn has_room(&self, at_most: usize) -> Result<(), Refusal> {
        if self.hanging < at_most {
            return Ok(());
        }
        let why = format!(
            "{} requests in other namespaces have not been answered yet, so this one waits",
            self.hanging
        );
        Err(Refusal { retry_after: PATIENCE, why })
    }

    /// Admits a request.
    pub fn admit(&mut self, of: &Compartment, name: &str, now: Instant) -> Result<Admitted, Refusal> {
        if self.is_idle() {
            return Ok(Admitted { patience: PATIENCE, counted: false, probes: false });
        }
        self.check(of, name, now)?;
        let Some(entry) = self.compartments.get_mut(of) else {
            let is_unknown = self.kinds.contains_key(&of.kind()) && !self.quick.contains(of);
            let patience = if is_unknown { LITTLE_PATIENCE } else { PATIENCE };
            return Ok(Admitted { patience, counted: false, probes: false });
        };
        let probes = entry.open.is_some();
        if let Some(open) = &mut entry.open {
            open.probe = Some(now);
            open.last = name.to_owned();
            open.others_wait = false;
        }
        // It is expected to hang, too, so it gets no patience: it occupies no worker and no slot.
        entry.hanging += 1;
        self.hanging += 1;
        Ok(Admitted { patience: Duration::ZERO, counted: true, probes })
    }

    /// A request took longer than its patience.
    pub fn hangs(&mut self, of: &Compartment, admitted: &mut Admitted, now: Instant) {
        if admitted.counted {
            return;
        }
        if let Some(entry) = self.entry(of, now) {
            entry.hanging += 1;
            self.hanging += 1;
            self.quick.remove(of);
            admitted.counted = true;
        }
    }

    /// A request has ended. `leave` follows.
    pub fn end(&mut self, of: &Compartment, admitted: &Admitted, began: Instant, now: Instant, end: End<'_>) {
        let took = now - began;
        match end {
            End::NotSent => {}
            End::Failed(error) if took >= SLOW => self.failed(of, admitted.probes, began, now, error),
            End::Failed(_) | End::Answered => {
                if let Some(entry) = self.compartments.get_mut(of) {
                    entry.open = None;
                }
                let is_quick = matches!(end, End::Answered) && took < PATIENCE;
                if is_quick && self.quick.len() < COMPARTMENTS && self.kinds.contains_key(&of.kind()) {
                    self.quick.insert(of.clone());
                }
            }
        }
    }

    fn failed(&mut self, of: &Compartment, probed: bool, began: Instant, now: Instant, error: &ApiError) {
        let Some(entry) = self.entry(of, now) else { return };
        let (wait, last, others_wait) = match &entry.open {
            // It hung together with the request that opened the circuit. All requests that were
            // in flight at that time count as one failure.
            Some(open) if !probed && began < open.since => return,
            Some(open) => ((open.wait * 2).min(LONGEST_WAIT), open.last.clone(), open.others_wait),
            None => (FIRST_WAIT, String::new(), false),
        };
        let (until, took, error) = (now + wait, now - began, error.clone());
        entry.open = Some(Open { since: now, until, wait, took, error, probe: None, last, others_wait });
    }

    /// Removes a request, whether or not its end was noted.
    pub fn leave(&mut self, of: &Compartment, admitted: &Admitted) {
        let Some(entry) = self.compartments.get_mut(of) else { return };
        if admitted.probes
            && let Some(open) = &mut entry.open
        {
            open.probe = None;
        }
        if admitted.counted {
            entry.hanging = entry.hanging.saturating_sub(1);
            self.hanging = self.hanging.saturating_sub(1);
        }
        if entry.hanging == 0 && entry.open.is_none() {
            self.remove(of);
        }
    }

    /// Closes all circuits: the failures had another cause.
    pub fn close_circuits(&mut self) {
        self.close(|_| true);
    }

    fn close(&mut self, which: impl Fn(&Open) -> bool) {
        let mut idle = Vec::new();
        for (of, entry) in &mut self.compartments {
            if entry.open.as_ref().is_some_and(&which) {
                entry.open = None;
                if entry.hanging == 0 {
                    idle.push(of.clone());
                }
            }
        }
        idle.iter().for_each(|of| self.remove(of));
    }

    /// The compartment. It is created unless there are too many.
    fn entry(&mut self, of: &Compartment, now: Instant) -> Option<&mut Entry> {
        if !self.compartments.contains_key(of) {
            // Drops circuits that could be probed for a long time and were not.
            self.close(|open| open.probe.is_none() && now > open.until + LONGEST_WAIT);
            if self.compartments.len() >= COMPARTMENTS {
                return None;
            }
            *self.kinds.entry(of.kind()).or_default() += 1;
            self.compartments.insert(of.clone(), Entry::default());
            record::hanging_compartments(self.compartments.len());
        }
        self.compartments.get_mut(of)
    }

    fn remove(&mut self, of: &Compartment) {
        if self.compartments.remove(of).is_none() {
            return;
        }
        if let Some(count) = self.kinds.get_mut(&of.kind()) {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(&of.kind());
                let kind = of.kind();
                self.quick.retain(|quick| quick.kind() != kind);
            }
        }
        record::hanging_compartments(self.compartments.len());
    }
}

type Hook = Arc<dyn Fn() + Send + Sync>;

tokio::task_local! {
    static HOOK: Hook;
}

/// A function that is called when a request hangs. It is set for the duration of a future.
#[derive(Debug)]
pub struct HangHook;

impl HangHook {
    /// Runs a future, and calls `hook` whenever one of its requests hangs. The hooks of outer
    /// scopes are called, too.
    pub fn scope<F: Future>(
        hook: impl Fn() + Send + Sync + 'static,
        work: F,
    ) -> impl Future<Output = F::Output> {
        let outer = HOOK.try_with(Arc::clone).ok();
        let both: Hook = match outer {
            None => Arc::new(hook),
            Some(outer) => Arc::new(move || {
                hook();
                outer();
            }),
        };
        HOOK.scope(both, work)
    }

    /// Calls the hooks of the current task.
    fn call() {
        // Outside of a scope there is no hook.
        let _ = HOOK.try_with(|hook| hook());
    }
}

#[cfg(test)]
mod tests;
