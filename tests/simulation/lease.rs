//! The lease by which one of several replicas writes: who has it is drawn here, in
//! place of an elector; the collector's gate and all behind it are the real ones.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube_gc::internals::api::{Clock, ReplicaRole, WriteGate};
use tokio::time::{Instant, sleep, sleep_until};

/// How long a renewal is good for, and how often there is one.
const GOOD_FOR: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(2);

/// The lease of a run. Clones are the same.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Whether one is needed in this run at all.
    is_needed: bool,
    /// Until when somebody else has it.
    lost_until: Option<Instant>,
    /// Whether the collector is told, or has to find out by its clock.
    told: bool,
    /// Until when the collector may write.
    deadline: Instant,
    terms: u64,
    wrong: Option<String>,
}

impl Lease {
    /// A lease that is needed, or not.
    pub fn new(is_needed: bool) -> Self {
        let state = State {
            is_needed,
            lost_until: None,
            told: false,
            deadline: Instant::now(),
            terms: 0,
            wrong: None,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A gate for the next collector, which has yet to be given the lease.
    pub fn gate(&self) -> (WriteGate, Clock) {
        let clock = Clock::runtime();
        let is_needed = self.with(|state| {
            state.deadline = Instant::now();
            state.is_needed
        });
        (if is_needed { WriteGate::leased(clock) } else { WriteGate::open() }, clock)
    }

    /// Renews it for a collector, as long as nobody else has it.
    pub async fn keep(self, gate: WriteGate, clock: Clock) {
        if !gate.needs_lease() {
            return;
        }
        let mut leads = false;
        loop {
            let (lost_until, told) = self.with(|state| (state.lost_until, state.told));
            match lost_until.filter(|until| Instant::now() < *until) {
                Some(until) => {
                    if leads && !told {
                        // Whoever would tell it stands still: the gate has its own clock.
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
                    gate.grant(clock.now().after(GOOD_FOR));
                    gate.announce(ReplicaRole::Leading { term });
                    leads = true;
                    self.renewed_or_lost().await;
                }
            }
        }
    }

    /// Until the next renewal is due, or the lease is lost.
    async fn renewed_or_lost(&self) {
        let due = Instant::now() + EVERY;
        while Instant::now() < due && self.with(|state| state.lost_until.is_none()) {
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Somebody else has it for so long; whether the collector is told at once.
    pub fn lose(&self, time: Duration, told: bool) {
        self.with(|state| {
            state.lost_until = Some(Instant::now() + time);
            state.told = told;
        });
    }

    /// Nobody else wants it any more.
    pub fn heal(&self) {
        self.with(|state| state.lost_until = None);
    }

    /// A write leaves the collector.
    pub fn written(&self, line: &str) {
        self.with(|state| {
            // What was checked in the very moment in which it was lost is under way.
            if state.is_needed && Instant::now() > state.deadline {
                state.wrong.get_or_insert_with(|| format!("written without the lease: {line}"));
            }
        });
    }

    /// The first thing that was wrong.
    pub fn wrong(&self) -> Option<String> {
        self.with(|state| state.wrong.clone())
    }
}
