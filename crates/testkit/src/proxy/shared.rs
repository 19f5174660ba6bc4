//! What the proxy, its connections and the rules of a test share.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::outage::Outage;
use super::state::State;

/// The time limit of each wait.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// The state that the proxy, its connections and the rules of the test share.
#[derive(Clone)]
pub(super) struct Shared {
    pub state: Arc<Mutex<State>>,
    /// Counts changes, so that tests can wait for them.
    pub changes: watch::Sender<u64>,
    /// The outage that the proxy simulates, if any.
    pub outage: watch::Sender<Option<Outage>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// Changes the state and notifies waiters.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.with_quietly(|state| (change(state), true))
    }

    /// The same, but notifies only if something changed.
    pub(super) fn with_quietly<T>(&self, change: impl FnOnce(&mut State) -> (T, bool)) -> T {
        // The guarded value is consistent even after a panic elsewhere.
        let (result, changed) = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
        result
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.with_quietly(|state| (look(state), false))
    }

    pub(super) async fn until(&self, description: &str, condition: impl Fn(&State) -> bool) -> Result<()> {
        let mut changes = self.changes.subscribe();
        let met = timeout(DEADLINE, changes.wait_for(|_| self.look(&condition))).await;
        met.with_context(|| format!("waited {DEADLINE:?} for {description}"))?.context("the proxy ended")?;
        Ok(())
    }

    /// Records the answer of a request.
    pub(super) fn answered(&self, index: usize, status: u16) {
        self.with(|state| {
            let exchange = &mut state.log[index];
            (exchange.status, exchange.answered) = (Some(status), Some(Instant::now()));
        });
    }
}
