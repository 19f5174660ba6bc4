//! The lease that lets one of several replicas write. A random plan replaces the elector; the
//! collector's write gate and everything behind it are real.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube_gc_client::{Clock, ReplicaRole, WriteGate};
use tokio::time::{Instant, sleep, sleep_until};

/// How long a renewal is valid, and the interval of renewals.
const GOOD_FOR: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(2);

/// The lease of a run. Clones share it.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Whether this run needs a lease.
    is_needed: bool,
    /// Until when another replica holds it.
    lost_until: Option<Instant>,
    /// Whether the collector is notified of the loss, or must notice it by its clock.
    notified: bool,
    /// Until when the collector may write.
    deadline: Instant,
    terms: u64,
    wrong: Option<String>,
}

impl Lease {
    /// A lease, for a run that needs one or not.
    pub fn new(is_needed: bool) -> Self {
        let state = State {
            is_needed,
            lost_until: None,
            notified: false,
            deadline: Instant::now(),
            terms: 0,
            wrong: None,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A write gate for the next collector, which does not hold the lease yet.
    pub fn gate(&self) -> (WriteGate, Clock) {
        let clock = Clock::runtime();
        let is_needed = self.with(|state| {
            state.deadline = Instant::now();
            state.is_needed
        });
        (if is_needed { WriteGate::leased(clock) } else { WriteGate::open() }, clock)
    }

    /// Renews the lease for a collector, unless another replica holds it.
    pub async fn keep(self, gate: WriteGate, clock: Clock) {
        if !gate.needs_lease() {
            return;
        }
        let mut leads = false;
        loop {
            let (lost_until, notified) = self.with(|state| (state.lost_until, state.notified));
            match lost_until.filter(|until| Instant::now() < *until) {
                Some(until) => {
                    if leads && !notified {
                        // The elector is stuck. The gate has its own clock.
                        sleep_until(until).await;
                    }
                    if std::mem::take(&mut leads) {
                        self.with(|state| state.deadline = state.deadline.min(Instant::now()));
                        gate.withdraw();
                    }
                    gate.announce(ReplicaRole::Standby { holder: Some("another".into()) });
                    sleep_until(until).await;
                }
                None => {
                    let term = self.with(|state| {
                        state.lost_until = None;
                        state.terms += u64::from(!leads);
                        state.deadline = Instant::now() + GOOD_FOR;
                        state.terms
                    });
                    gate.grant(clock.now() + GOOD_FOR);
                    gate.announce(ReplicaRole::Leading { term });
                    leads = true;
                    self.renewed_or_lost().await;
                }
            }
        }
    }

    /// Waits until the next renewal is due or the lease is lost.
    async fn renewed_or_lost(&self) {
        let due = Instant::now() + EVERY;
        while Instant::now() < due && self.with(|state| state.lost_until.is_none()) {
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Another replica holds the lease for this time. `notified` says whether the collector is
    /// notified at once.
    pub fn lose(&self, time: Duration, notified: bool) {
        self.with(|state| {
            state.lost_until = Some(Instant::now() + time);
            state.notified = notified;
        });
    }

    /// No other replica wants the lease any more.
    pub fn heal(&self) {
        self.with(|state| state.lost_until = None);
    }

    /// The collector sends a write.
    pub fn written(&self, line: &str) {
        self.with(|state| {
            // A write that was checked at the very moment of the loss is already in flight.
            if state.is_needed && Instant::now() > state.deadline {
                state.wrong.get_or_insert_with(|| format!("written without the lease: {line}"));
            }
        });
    }

    /// The first violation.
    pub fn wrong(&self) -> Option<String> {
        self.with(|state| state.wrong.clone())
    }
}
