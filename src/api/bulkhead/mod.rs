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
