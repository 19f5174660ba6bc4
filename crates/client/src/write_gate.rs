//! The write gate: whether this process may change anything in the cluster.
//!
//! Every write takes a [`WritePermit`] right before its request is handed to the transport,
//! because the gate may have closed since a worker took up the item.
//!
//! Of several replicas, only the one that holds the lease may write. The gate knows the
//! lease's deadline and reads the clock itself. So even if the rest of the process stands
//! still, nothing is written after the deadline.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::{Method, Request};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tower::filter::FilterLayer;

use kube_gc_observe::telemetry::record;

/// Decides whether a write may be sent. Clones share one state.
#[derive(Clone, Debug)]
pub struct WriteGate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dry_run: bool,
    paused: AtomicBool,
    lease: Option<Lease>,
    role: watch::Sender<ReplicaRole>,
}

#[derive(Debug)]
struct Lease {
    clock: Clock,
    /// When the lease ends, in nanoseconds since the clock's origin; 0 without a lease.
    deadline: AtomicU64,
    /// When any replica renewed the lease last, in the same unit; 0 before the first renewal.
    renewed: AtomicU64,
}

/// The role of this process among the replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaRole {
    /// There is no election: the process needs no lease.
    Alone,
    /// Another replica writes, or will.
    Standby {
        /// The holder of the lease, if it is known.
        holder: Option<Arc<str>>,
    },
    /// This replica holds the lease.
    Leading {
        /// How often it has become the leader. This distinguishes a leader that lost its lease
        /// and took it again from one that held it all the time.
        term: u64,
    },
}

impl ReplicaRole {
    /// Whether this process may write.
    pub const fn writes(&self) -> bool {
        match self {
            Self::Alone | Self::Leading { .. } => true,
            Self::Standby { .. } => false,
        }
    }
}

/// Why a write may not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateClosed {
    /// This process never writes. It logs what it would have done.
    #[error("dry run: nothing is written")]
    DryRun,
    /// The graph is being rebuilt.
    #[error("the write gate is closed while the graph is rebuilt")]
    Closed,
    /// Another replica writes.
    #[error("this replica is a standby; only the leader writes")]
    Standby,
    /// The lease was not renewed in time.
    #[error("this replica did not renew the Lease in time; another replica may be the leader now")]
    Expired,
}

impl GateClosed {
    pub const fn reason(self) -> &'static str {
        match self {
            Self::DryRun => "dry_run",
            Self::Closed => "rebuilding",
            Self::Standby => "standby",
            Self::Expired => "expired",
        }
    }
}

/// Permits one write, to be sent at once. Only a gate gives it ([`WriteGate::permit`]):
///
/// ```compile_fail,E0451
/// let permit = kube_gc_client::WritePermit { term: None };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePermit {
    /// When it was issued and when it expires, on the gate's clock; `None` if it does not expire.
    term: Option<(Duration, Duration)>,
}

impl WritePermit {
    /// The time limit of a request: `timeout`, or less if the permit expires sooner.
    pub fn limit(&self, timeout: Duration) -> Duration {
        self.term.map_or(timeout, |(given, ends)| ends.saturating_sub(given).min(timeout))
    }
}

impl WriteGate {
    fn new(dry_run: bool, lease: Option<Lease>, role: ReplicaRole) -> Self {
        let (role, _) = watch::channel(role);
        Self(Arc::new(Inner { dry_run, paused: AtomicBool::new(false), lease, role }))
    }

    /// A gate that permits writes until it is paused.
    pub fn open() -> Self {
        Self::new(false, None, ReplicaRole::Alone)
    }

    /// A gate that never permits a write.
    pub fn dry_run() -> Self {
        Self::new(true, None, ReplicaRole::Alone)
    }

    /// A gate that permits writes while a lease is held, from the first
    /// [`grant`](Self::grant) on.
    pub fn leased(clock: Clock) -> Self {
        let lease = Lease { clock, deadline: AtomicU64::new(0), renewed: AtomicU64::new(0) };
        Self::new(false, Some(lease), ReplicaRole::Standby { holder: None })
    }

    /// Whether it never permits a write.
    pub fn is_dry_run(&self) -> bool {
        self.0.dry_run
    }

    /// Takes a permit for one write, to be used at once.
    ///
    /// # Errors
    ///
    /// Nothing may be written now.
    pub fn permit(&self) -> Result<WritePermit, GateClosed> {
        let term = self.0.lease.as_ref().map(Lease::term);
        if self.0.dry_run {
            Err(GateClosed::DryRun)
        } else if self.0.paused.load(Ordering::SeqCst) {
            Err(GateClosed::Closed)
        } else {
            Ok(WritePermit { term: term.transpose()? })
        }
    }

    /// Permits no write until [`resume`](Self::resume), because the graph may be wrong. Pausing
    /// twice is the same as pausing once.
    pub fn pause(&self) {
        self.0.paused.store(true, Ordering::SeqCst);
    }

    pub fn resume(&self) {
        self.0.paused.store(false, Ordering::SeqCst);
    }

    /// The lease is held until the deadline, on the gate's clock. Without effect on a gate that needs no
    /// lease.
    pub fn grant(&self, deadline: Duration) {
        let Some(lease) = &self.0.lease else { return };
        lease.deadline.store(nanos(deadline), Ordering::SeqCst);
    }

    /// Notes when any replica renewed the lease. For display only.
    pub fn note_renewal(&self, at: Duration) {
        if let Some(lease) = &self.0.lease {
            lease.renewed.store(nanos(at), Ordering::Relaxed);
        }
    }

    /// The time since the last known renewal of the lease.
    pub fn lease_age(&self) -> Option<Duration> {
        let lease = self.0.lease.as_ref()?;
        let renewed = Duration::from_nanos(lease.renewed.load(Ordering::Relaxed));
        (!renewed.is_zero()).then(|| lease.clock.now().saturating_sub(renewed))
    }

    /// The lease is no longer held: permits no write from now on.
    pub fn withdraw(&self) {
        if let Some(lease) = &self.0.lease {
            lease.deadline.store(0, Ordering::SeqCst);
        }
    }

    /// Publishes the role of this process, if it has changed.
    pub fn announce(&self, role: ReplicaRole) {
        self.0.role.send_if_modified(|known| {
            let news = *known != role;
            *known = role;
            news
        });
    }

    pub fn role(&self) -> watch::Receiver<ReplicaRole> {
        self.0.role.subscribe()
    }

    pub fn needs_lease(&self) -> bool {
        self.0.lease.is_some()
    }

    /// The time until the lease ends; `None` if no lease is needed.
    pub fn time_left(&self) -> Option<Duration> {
        let lease = self.0.lease.as_ref()?;
        Some(lease.term().map_or(Duration::ZERO, |(now, deadline)| deadline.saturating_sub(now)))
    }

    /// Resolves when this permit has expired or the lease was lost. A request in flight must be
    /// cancelled then.
    ///
    /// Reads the clock on each poll, so that a process that was frozen notices before it does
    /// anything else.
    pub async fn expired(&self, permit: WritePermit) {
        let (Some(lease), Some((_, ends))) = (&self.0.lease, permit.term) else { return pending().await };
        let over = poll_fn(|_| if lease.clock.now() < ends { Poll::Pending } else { Poll::Ready(()) });
        let mut role = self.role();
        tokio::select! {
            biased;
            () = over => {}
            // An error means that the gate no longer exists.
            _ = role.wait_for(|role| !role.writes()) => {}
        }
    }
}

fn nanos(moment: Duration) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}

impl Lease {
    /// Now, and when the lease ends.
    fn term(&self) -> Result<(Duration, Duration), GateClosed> {
        let deadline = Duration::from_nanos(self.deadline.load(Ordering::SeqCst));
        if deadline.is_zero() {
            return Err(GateClosed::Standby);
        }
        let now = self.clock.now();
        if now < deadline { Ok((now, deadline)) } else { Err(GateClosed::Expired) }
    }
}

/// Asks the write gate again, below the client's queue: a kube client hands requests to its transport
/// through a buffer. A write may wait there, so it takes another permit on the other side.
pub(super) fn gate_layer<B>(
    gate: WriteGate,
) -> FilterLayer<impl Fn(Request<B>) -> Result<Request<B>, GateClosed> + Clone> {
    FilterLayer::new(move |request: Request<B>| {
        if request.method() != Method::GET {
            let permit = gate.permit().inspect_err(|closed| record::gate_refused(closed.reason()))?;
            note(&request, permit);
        }
        Ok(request)
    })
}

/// Logs when a write was permitted. The clock is the same for all processes of a machine, so
/// the logs of several replicas show who wrote when.
fn note<B>(request: &Request<B>, permit: WritePermit) {
    if let Some((checked, deadline)) = permit.term {
        tracing::debug!(
            method = %request.method(),
            path = request.uri().path(),
            checked_seconds = checked.as_secs_f64(),
            deadline_seconds = deadline.as_secs_f64(),
            "write is sent"
        );
    }
}

/// A monotonic clock for leases. It cannot be set. Its moments are durations since its origin.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The time since boot, including suspends: a lease expires while its holder's machine
    /// sleeps. The usual monotonic clock stops during that time, and the holder would wake up with a
    /// lease that seems valid.
    #[default]
    Boot,
    /// The time of the tokio runtime since this instant. Tests can pause it.
    Runtime(tokio::time::Instant),
}

impl Clock {
    /// A clock that begins now and stops when the runtime's time is paused.
    pub fn runtime() -> Self {
        Self::Runtime(tokio::time::Instant::now())
    }

    pub fn now(&self) -> Duration {
        match self {
            Self::Boot => since_boot(),
            Self::Runtime(origin) => origin.elapsed(),
        }
    }
}

fn since_boot() -> Duration {
    // Other systems have no closer equivalent than the monotonic clock.
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    // Never negative: the origin is the boot.
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;
    use tower::{BoxError, Layer as _, Service as _, ServiceExt as _, service_fn};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_dry_run_never_opens() {
        let gate = WriteGate::dry_run();
        gate.resume();
        assert_eq!(gate.permit(), Err(GateClosed::DryRun));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_written_without_a_lease_or_after_its_deadline() {
        let clock = Clock::runtime();
        let gate = WriteGate::leased(clock);
        assert!(gate.needs_lease());
        assert_eq!(gate.permit(), Err(GateClosed::Standby));
        gate.grant(clock.now() + 10 * SECOND);
        advance(4 * SECOND).await;
        assert_eq!(gate.permit().unwrap().limit(30 * SECOND), 6 * SECOND);
        assert_eq!(gate.time_left(), Some(6 * SECOND));
        advance(6 * SECOND).await;
        assert_eq!(gate.permit(), Err(GateClosed::Expired), "at the deadline it is over");
        gate.grant(clock.now() + SECOND);
        assert!(gate.permit().is_ok());
        gate.withdraw();
        assert_eq!((gate.permit(), gate.time_left()), (Err(GateClosed::Standby), Some(Duration::ZERO)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_does_not_open_a_gate_that_is_paused() {
        let clock = Clock::runtime();
        let gate = WriteGate::leased(clock);
        gate.pause();
        gate.grant(clock.now() + SECOND);
        assert_eq!(gate.permit(), Err(GateClosed::Closed));
        gate.clone().resume();
        assert!(gate.permit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_ends_with_its_deadline_or_the_loss_of_the_lease() {
        let clock = Clock::runtime();
        let gate = WriteGate::leased(clock);
        gate.announce(ReplicaRole::Leading { term: 1 });
        gate.grant(clock.now() + SECOND);
        let permit = gate.permit().unwrap();
        let mut outlived = Box::pin(gate.expired(permit));
        assert!(futures::poll!(&mut outlived).is_pending());
        advance(SECOND).await;
        assert!(futures::poll!(&mut outlived).is_ready(), "its time is over");

        gate.grant(clock.now() + SECOND);
        let permit = gate.permit().unwrap();
        let mut outlived = Box::pin(gate.expired(permit));
        assert!(futures::poll!(&mut outlived).is_pending());
        gate.announce(ReplicaRole::Standby { holder: None });
        assert!(futures::poll!(&mut outlived).is_ready(), "the lease was lost");
        let open = WriteGate::open();
        let permit = open.permit().unwrap();
        assert!(futures::poll!(Box::pin(open.expired(permit))).is_pending(), "without a deadline");
    }

    #[tokio::test]
    async fn only_writes_need_the_gate() {
        let gate = WriteGate::open();
        let mut service =
            gate_layer(gate.clone()).layer(service_fn(|_: Request<()>| async { Ok::<_, BoxError>(()) }));
        let request = |method| Request::builder().method(method).body(()).unwrap();
        service.ready().await.unwrap().call(request(Method::DELETE)).await.unwrap();
        gate.pause();
        let error = service.ready().await.unwrap().call(request(Method::PATCH)).await.unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&GateClosed::Closed));
        service.ready().await.unwrap().call(request(Method::GET)).await.unwrap();
    }
}
