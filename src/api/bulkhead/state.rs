//! The rules of compartments, as a state machine without a clock.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::{
    COMPARTMENTS, End, FIRST_WAIT, KNOWN_AT_MOST, LITTLE_PATIENCE, LONGEST_WAIT, PATIENCE, Refusal, SHARE,
    SLOW, UNKNOWN_AT_MOST,
};
use crate::api::call::Call;
use crate::api::error::ApiError;
use crate::api::settings::Verb;
use crate::telemetry::record;
use kube_gc_core::object::GroupResource;

/// Requests that the same webhooks may delay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Compartment {
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
pub(super) struct Admitted {
    pub patience: Duration,
    /// Whether it is counted as one that hangs.
    counted: bool,
    /// Whether it probes a compartment whose circuit is open.
    probes: bool,
}

/// All compartments in which requests hang or have hung.
#[derive(Debug, Default)]
pub(super) struct State {
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
