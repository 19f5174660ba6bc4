//! Leader election of `kube-gc run`.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::error::{Error, ErrorKind};
use crate::api::{Clock, ConnectError, Connection, WriteGate};
use crate::config::{LeaderSettings, Settings};
use crate::leader::{ApiLeases, Elector, LeaseAnnotations, LeaseName, Leases, ReplicaId, Timing};
use crate::telemetry::record;

/// The write gate that these settings require.
pub fn gate(settings: &Settings) -> WriteGate {
    match (settings.dry_run, settings.leader.enabled) {
        (true, _) => WriteGate::dry_run(),
        (false, true) => WriteGate::leased(Clock::Boot),
        (false, false) => WriteGate::open(),
    }
}

/// An election that this replica has not joined yet, or none.
pub struct Candidacy<L = ApiLeases> {
    elector: Option<Elector<L>>,
    /// A runtime that does no work on objects.
    thread: Handle,
}

/// An election that this replica has joined, or none.
pub struct Election {
    ending: CancellationToken,
    elector: Option<JoinHandle<()>>,
}

impl Candidacy {
    /// Prepares an election if the gate needs a lease. Sends nothing yet.
    ///
    /// # Errors
    /// No client for the lease can be built.
    pub fn new(
        connection: &Connection,
        settings: &LeaderSettings,
        gate: &WriteGate,
        thread: Handle,
    ) -> Result<Self, ConnectError> {
        if !gate.needs_lease() {
            return Ok(Self { elector: None, thread });
        }
        record::election();
        let LeaderSettings {
            enabled: _,
            namespace,
            name,
            identity,
            lease_duration,
            renew_deadline,
            retry_period,
        } = settings.clone();
        let namespace =
            if namespace.is_empty() { connection.config().default_namespace.clone() } else { namespace };
        let lease = LeaseName { namespace, name };
        let me = ReplicaId::new(&identity);
        tracing::info!(%lease, replica = %me, "this replica does not write until it acquires the Lease");
        let leases = {
            // The client spawns its background tasks there, too.
            let _entered = thread.enter();
            ApiLeases::connect(connection, lease)?
        };
        let timing = Timing { lease_duration, renew_deadline, retry_period };
        let elector = Elector::new(leases, me, timing, gate.clone(), Clock::Boot);
        Ok(Self { elector: Some(elector), thread })
    }
}

impl<L: Leases> Candidacy<L> {
    /// Joins the election once this replica is ready. A replica that still reads the cluster would
    /// hold the lease without using it, while another replica could continue the work at once.
    pub fn start(
        self,
        ready: impl Future<Output = ()> + Send + 'static,
        annotations: Arc<dyn LeaseAnnotations>,
    ) -> Election {
        let ending = CancellationToken::new();
        let token = ending.clone();
        let run = |elector: Elector<L>| async move {
            if token.run_until_cancelled(ready).await.is_some() {
                elector.with_annotations(annotations).run(token).await;
            }
        };
        let Self { elector, thread } = self;
        Election { elector: elector.map(|elector| thread.spawn(run(elector).boxed())), ending }
    }
}

impl Election {
    /// Resolves when the elector ends without having been stopped. Without an elector, this
    /// replica would stay a standby forever.
    pub async fn fails(&mut self) -> Error {
        match &mut self.elector {
            None => std::future::pending().await,
            Some(elector) => {
                let error = elector.await.err().map(|error| error.to_string()).unwrap_or_default();
                self.elector = None;
                Error::new(ErrorKind::Internal, format!("leader election ended unexpectedly {error}"))
            }
        }
    }

    /// Releases the lease. Call it when nothing is written any more.
    pub async fn stop(self) {
        self.ending.cancel();
        if let Some(elector) = self.elector {
            // After an error the lease expires by itself.
            let _ = elector.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use k8s_openapi::api::coordination::v1::Lease;

    use super::*;
    use crate::api::GateClosed;
    use crate::app::threads::{Threads, block_on};
    use crate::leader::{LeaseError, NoAnnotations};

    /// A Lease without other candidates. Reports each renewal.
    struct Alone {
        renewals: mpsc::Sender<()>,
    }

    impl Leases for Alone {
        async fn read(&self) -> Result<Option<Lease>, LeaseError> {
            Ok(None)
        }

        async fn create(&self, lease: Lease) -> Result<Lease, LeaseError> {
            Ok(lease)
        }

        async fn replace(&self, lease: Lease) -> Result<Lease, LeaseError> {
            // The test may have ended.
            let _ = self.renewals.send(());
            Ok(lease)
        }
    }

    /// Fails if the elector, its timers or its requests need the thread that works on objects: a
    /// replica would lose its Lease while a large object is worked on.
    #[test]
    fn the_elector_renews_the_lease_while_the_thread_of_the_workers_is_blocked() {
        let timing = Timing {
            lease_duration: Duration::from_secs(60),
            renew_deadline: Duration::from_secs(50),
            retry_period: Duration::from_millis(10),
        };
        let (gate, (renewals, renewed)) = (WriteGate::leased(Clock::Boot), mpsc::channel());
        let elector =
            Elector::new(Alone { renewals }, ReplicaId::new("one"), timing, gate.clone(), Clock::Boot);
        let times = block_on(1, async |Threads { lease, .. }: Threads| {
            let candidacy = Candidacy { elector: Some(elector), thread: lease };
            let election = candidacy.start(async {}, Arc::new(NoAnnotations));
            // Nothing else is polled on this thread meanwhile.
            let times = (0..5).map_while(|_| renewed.recv_timeout(Duration::from_secs(60)).ok()).count();
            assert!(gate.permit().is_ok(), "it leads");
            election.stop().await;
            times
        });
        assert_eq!(times, Ok(5));
    }

    fn settings(dry_run: bool, enabled: bool) -> Settings {
        let leader = LeaderSettings { enabled, ..LeaderSettings::default() };
        Settings { dry_run, leader, ..Settings::default() }
    }

    #[test]
    fn replicas_wait_for_the_lease_and_a_single_collector_does_not() {
        assert!(gate(&settings(false, false)).permit().is_ok());
        assert_eq!(gate(&settings(false, true)).permit(), Err(GateClosed::Standby));
    }

    #[test]
    fn a_dry_run_takes_no_part_in_the_election() {
        let gate = gate(&settings(true, true));
        assert_eq!(gate.permit(), Err(GateClosed::DryRun));
        assert!(!gate.needs_lease(), "it would write the lease");
    }
}
