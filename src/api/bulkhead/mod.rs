//! Keeps requests that hang from taking the places of all others.
//!
//! An admission webhook is asked for the objects of some namespaces, one type and one
//! verb, and a conversion webhook for one type. Trouble is therefore kept by type,
//! namespace and verb: a *compartment*. This is the bulkhead pattern, with a circuit
//! breaker in each compartment:
//!
//! - A request that is not answered within [`PATIENCE`] hangs. It goes on, but gives back
//!   its place in the concurrency window, and its worker steps aside for another one.
//! - While requests of a compartment hang, it has at most [`SHARE`] of them under way.
//! - A compartment whose request failed after [`SLOW`] is left alone for a while, from one
//!   second to thirty. Then a single request probes.
//! - All compartments together have at most [`KNOWN_AT_MOST`] requests under way once they
//!   are known to hang. A namespace that is not known yet, for a type and verb that hang
//!   elsewhere, is given less patience, and waits when [`UNKNOWN_AT_MOST`] hang.
//!
//! A request that is not sent for one of these reasons fails with
//! [`Deferred`](ErrorClass::Deferred): it says so, names the failure of the other object,
//! and counts as no attempt.

mod hang_hook;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::call::Call;
use super::error::{ApiError, ErrorClass};
use crate::telemetry::record;
use state::{Admitted, Compartment, State};

pub use hang_hook::HangHook;

/// A request that takes longer hangs, in a webhook more often than in the API server.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The same for a namespace of which nothing is known, while requests of that type and verb
/// hang elsewhere: a hundred of such namespaces must not take a hundred seconds of workers.
const LITTLE_PATIENCE: Duration = Duration::from_millis(125);
/// A failure that took this long opens the circuit.
const SLOW: Duration = Duration::from_secs(2);
/// How many requests of a compartment may be under way while one of them hangs.
const SHARE: usize = 4;
/// How many requests of compartments that are known to hang may be under way in all.
const KNOWN_AT_MOST: usize = 64;
/// How many requests may hang before those of unknown namespaces wait. Below the number of
/// workers that a pool lets step aside.
const UNKNOWN_AT_MOST: usize = 96;
/// How many compartments are remembered.
const COMPARTMENTS: usize = 4096;
/// How long a compartment is left alone after its first slow failure; doubled with each
/// probe that fails.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest of these waits.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The compartments in which requests hang. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(super) struct Bulkhead(Arc<Mutex<State>>);

/// What a request's end says of its compartment.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// It was answered, be it with a refusal.
    Answered,
    /// It failed in a way that passes.
    Failed(&'a ApiError),
    /// Nothing: it was not sent.
    NotSent,
}

impl<'a> End<'a> {
    /// What a result says.
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

/// Leave to send one request. Dropping it gives back what it holds.
#[derive(Debug)]
pub(super) struct CompartmentGuard {
    bulkhead: Bulkhead,
    compartment: Compartment,
    admitted: Admitted,
    began: Instant,
}

impl Bulkhead {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request would be sent now.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self, call: &Call<'_>) -> Result<(), ApiError> {
        let mut state = self.state();
        if state.is_idle() {
            return Ok(());
        }
        let refused = state.check(&Compartment::of(call), call.object_name(), Instant::now());
        drop(state);
        refused.map_err(|refusal| deferred(call, refusal))
    }

    /// Lets a request be sent, right before it is.
    ///
    /// # Errors
    /// The reason why it is not to be sent.
    pub fn admit(&self, call: &Call<'_>) -> Result<CompartmentGuard, ApiError> {
        let (began, compartment) = (Instant::now(), Compartment::of(call));
        let admitted = self.state().admit(&compartment, call.object_name(), began);
        match admitted {
            Ok(admitted) => Ok(CompartmentGuard { bulkhead: self.clone(), compartment, admitted, began }),
            Err(refusal) => Err(deferred(call, refusal)),
        }
    }

    /// No compartment is left alone any more: what failed was the API server as a whole,
    /// which can be reached again.
    pub fn close_circuits(&self) {
        self.state().close_circuits();
    }
}

impl CompartmentGuard {
    /// How long the request may take before it counts as one that hangs.
    pub const fn patience(&self) -> Duration {
        self.admitted.patience
    }

    /// It has taken longer: the worker that waits for it lets another one have its place.
    pub fn hangs(&mut self) {
        self.bulkhead.state().hangs(&self.compartment, &mut self.admitted, Instant::now());
        HangHook::now();
    }

    /// The request has ended.
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

/// Why a request is not sent, and for how long.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    retry_after: Duration,
    why: String,
}

fn deferred(call: &Call<'_>, Refusal { retry_after, why }: Refusal) -> ApiError {
    record::request_deferred("hanging");
    call.error(ErrorClass::Deferred { retry_after }, format!("not sent: {why}"), None)
}
