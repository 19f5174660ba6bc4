//! The loop that takes, renews and releases the lease.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::decide::{LeaseAction, Observation, claimed, decide, holder, is_held_by, released};
use super::{LeaseAnnotations, LeaseError, Leases, NoAnnotations, ReplicaId};
use kube_gc_client::{Clock, Jitter, ReplicaRole, WriteGate};
use kube_gc_observe::telemetry::record::{self, LeaseTransition};

/// A standby waits for the retry period and up to this multiple of it in addition, so that
/// replicas that started together do not send their requests together. client-go's factor.
const JITTER: f64 = 1.2;

/// The timing of the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long other replicas wait for a renewal before one of them takes the lease.
    pub lease_duration: Duration,
    /// How long this replica may write after a renewal. It counts from before the renewal was
    /// sent, so on every clock it ends before the lease does.
    pub renew_deadline: Duration,
    /// The time between two attempts.
    pub retry_period: Duration,
}

/// One replica's part in the election.
#[derive(Debug)]
pub struct Elector<L> {
    leases: L,
    me: ReplicaId,
    timing: Timing,
    gate: WriteGate,
    clock: Clock,
    jitter: Jitter,
    annotations: Arc<dyn LeaseAnnotations>,
    observed: Option<Observation>,
    /// The Lease at the version to replace; `None` if it must be read first.
    known: Option<Lease>,
    /// Until when this replica is the leader.
    deadline: Option<Duration>,
    terms: u64,
    /// Whether the Lease may name this replica even if it is not the leader: a request whose
    /// answer was lost may have taken effect.
    may_hold: bool,
    last_error: Option<String>,
}

impl<L: Leases> Elector<L> {
    /// A replica that is not the leader yet. `clock` must be the clock of the gate.
    pub fn new(leases: L, me: ReplicaId, timing: Timing, gate: WriteGate, clock: Clock) -> Self {
        Self {
            leases,
            me,
            timing,
            gate,
            clock,
            jitter: Jitter::random(),
            annotations: Arc::new(NoAnnotations),
            observed: None,
            known: None,
            deadline: None,
            terms: 0,
            may_hold: false,
            last_error: None,
        }
    }

    /// Sets what reads and writes annotations of the Lease.
    pub fn with_annotations(mut self, annotations: Arc<dyn LeaseAnnotations>) -> Self {
        self.annotations = annotations;
        self
    }

    /// Takes part in the election until it is cancelled, then releases the lease. The caller must
    /// have stopped all writes by then; the gate permits none.
    pub async fn run(mut self, ending: CancellationToken) {
        loop {
            let attempt = async {
                let pause = self.attempt().await;
                if self.deadline.is_some() {
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = self.annotations.news() => {}
                    }
                } else {
                    sleep(pause).await;
                }
            };
            if ending.run_until_cancelled(attempt).await.is_none() {
                break;
            }
        }
        self.release().await;
    }

    /// One attempt. Returns the time until the next.
    async fn attempt(&mut self) -> Duration {
        if self.deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
            self.lose("the Lease was not renewed in time");
        }
        if self.known.is_none() || self.deadline.is_none() {
            let read = limited(self.limit(), self.leases.read()).await;
            match read {
                Ok(lease) => self.observe(lease),
                Err(error) => return self.failed("read", &error),
            }
        }
        let now = self.clock.now();
        match decide(self.observed.as_ref(), now, &self.me) {
            LeaseAction::Wait { until } => {
                self.stand_by();
                until.saturating_sub(now).min(self.pause())
            }
            LeaseAction::Create | LeaseAction::Take | LeaseAction::Renew => self.claim().await,
        }
    }

    /// Takes or renews the lease.
    async fn claim(&mut self) -> Duration {
        let before = self.observed.as_ref().map(|observed| &observed.spec);
        let claim = claimed(before, &self.me, self.timing.lease_duration, Timestamp::now());
        // Counts from before the request: other replicas count from when they see it, later.
        let sent = self.clock.now();
        self.may_hold = true;
        self.inherit();
        match self.write(claim).await {
            Ok(lease) => {
                self.observe(Some(lease));
                self.won(sent);
                self.last_error = None;
                self.pause()
            }
            Err(LeaseError::Conflict) => {
                tracing::debug!("another process has changed the Lease");
                self.known = None;
                self.pause()
            }
            Err(error @ LeaseError::Failed(_)) => {
                self.known = None;
                self.failed("write", &error)
            }
        }
    }

    async fn write(&self, spec: LeaseSpec) -> Result<Lease, LeaseError> {
        let is_held = holder(&spec).is_some();
        let mut lease = Lease { spec: Some(spec), ..self.known.clone().unwrap_or_default() };
        if is_held {
            self.annotations.write(&mut lease);
        } else {
            self.annotations.erase(&mut lease);
        }
        // A Lease that was read has a version, which is a precondition of the replacement.
        if self.known.is_some() {
            limited(self.limit(), self.leases.replace(lease)).await
        } else {
            limited(self.limit(), self.leases.create(lease)).await
        }
    }

    fn observe(&mut self, lease: Option<Lease>) {
        let now = self.clock.now();
        let otherwise = self.timing.lease_duration;
        self.observed = lease.as_ref().map(|lease| {
            let spec = lease.spec.clone().unwrap_or_default();
            Observation::after(self.observed.take(), spec, now, otherwise)
        });
        if let Some(observed) = self.observed.as_ref().filter(|observed| holder(&observed.spec).is_some()) {
            self.gate.note_renewal(observed.since);
        }
        self.known = lease;
        if let (Some(lease), true) = (&self.known, self.holds()) {
            self.annotations.read(lease);
        }
    }

    /// Whether the Lease names this replica as its holder.
    fn holds(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| is_held_by(&observed.spec, &self.me))
    }

    /// Before the gate opens: hands over the previous leader's annotations.
    fn inherit(&self) {
        let held_by_other = self.other().is_some();
        if let (Some(lease), true) = (&self.known, held_by_other) {
            self.annotations.inherit(lease);
        }
    }

    fn won(&mut self, sent: Duration) {
        let deadline = sent.saturating_add(self.timing.renew_deadline);
        if self.clock.now() >= deadline {
            self.lose("the response to a renewal arrived too late");
            return;
        }
        let leads = self.deadline.replace(deadline).is_some();
        self.gate.grant(deadline);
        self.gate.note_renewal(sent);
        if !leads {
            self.terms += 1;
            record::lease_transition(LeaseTransition::Acquired);
            tracing::info!(replica = %self.me, "this replica is the leader");
            self.gate.announce(ReplicaRole::Leading { term: self.terms });
        }
    }

    /// Gives up leadership. Closes the gate first of all.
    fn lose(&mut self, reason: &str) {
        self.gate.withdraw();
        if self.deadline.take().is_some() {
            record::lease_transition(LeaseTransition::Lost);
            tracing::warn!(replica = %self.me, reason, "this replica has lost the Lease; it is a standby and no longer writes");
        }
        self.gate.announce(ReplicaRole::Standby { holder: self.other() });
    }

    /// Another replica holds the lease.
    fn stand_by(&mut self) {
        self.may_hold = false;
        self.last_error = None;
        self.annotations.deposed();
        if self.deadline.is_some() {
            self.lose("another replica has taken the Lease");
        }
        let standby = ReplicaRole::Standby { holder: self.other() };
        if *self.gate.role().borrow() != standby {
            tracing::info!(leader = self.other().as_deref(), "another replica is the leader");
        }
        self.gate.announce(standby);
    }

    fn other(&self) -> Option<Arc<str>> {
        let spec = &self.observed.as_ref()?.spec;
        holder(spec).filter(|_| !is_held_by(spec, &self.me)).map(Arc::from)
    }

    fn failed(&mut self, request: &'static str, error: &LeaseError) -> Duration {
        record::lease_error();
        let error = error.to_string();
        // The same error only once in a row: the request is retried every few seconds.
        if self.last_error.as_ref() == Some(&error) {
            tracing::debug!(request, error, "cannot access the Lease");
        } else {
            tracing::warn!(
                request,
                error,
                "cannot access the Lease; without it, this replica writes nothing. Check that the namespace of \
                 the Lease exists and that this process may get, create and update \
                 leases.coordination.k8s.io in it"
            );
            self.last_error = Some(error);
        }
        self.pause()
    }

    /// The time limit of one request. Two of them fit before the deadline.
    fn limit(&self) -> Duration {
        let limit = self.timing.renew_deadline / 2;
        self.deadline.map_or(limit, |deadline| deadline.saturating_sub(self.clock.now()).min(limit))
    }

    fn pause(&self) -> Duration {
        let retry = self.timing.retry_period;
        match self.deadline {
            // Not longer than until the deadline, to notice it.
            Some(deadline) => retry.min(deadline.saturating_sub(self.clock.now())),
            None => self.jitter.within(&(retry..retry + retry.mul_f64(JITTER))),
        }
    }

    /// Releases the lease if this replica may hold it. Tries a second time if another process
    /// changed the Lease meanwhile or a renewal was still in flight.
    async fn release(mut self) {
        self.gate.withdraw();
        self.gate.announce(ReplicaRole::Standby { holder: None });
        if !self.may_hold {
            return;
        }
        let limit = self.timing.renew_deadline / 2;
        self.deadline = None;
        let released = timeout(limit, async {
            for _ in 0..2 {
                let lease = self.leases.read().await?;
                self.observe(lease);
                let held = self.observed.as_ref().map(|observed| &observed.spec);
                let Some(held) = held.filter(|spec| is_held_by(spec, &self.me)) else { return Ok(false) };
                match self.write(released(held, Timestamp::now())).await {
                    Err(LeaseError::Conflict) => {}
                    result => return result.map(|_| true),
                }
            }
            Err(LeaseError::Conflict)
        });
        match released.await.unwrap_or_else(|_| Err(too_slow(limit))) {
            Ok(true) => {
                record::lease_transition(LeaseTransition::Released);
                tracing::info!(replica = %self.me, "this replica has released the Lease");
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot release the Lease; other replicas wait until it expires");
            }
        }
    }
}

async fn limited<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, LeaseError>>,
) -> Result<T, LeaseError> {
    timeout(limit, request).await.unwrap_or_else(|_| Err(too_slow(limit)))
}

fn too_slow(limit: Duration) -> LeaseError {
    LeaseError::Failed(format!("no answer within {limit:?}"))
}
