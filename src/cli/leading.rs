//! Leader election, as `run` has it.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::failure::Failure;
use crate::api::{Clock, ConnectError, WriteGate};
use crate::config::{LeaderSettings, Settings};
use crate::leader::{ApiLeases, Elector, LeaseAnnotations, LeaseName, ReplicaId, Timing};
use crate::telemetry::record;

/// The gate that these settings ask for.
pub fn gate(settings: &Settings) -> WriteGate {
    match (settings.dry_run, settings.leader.enabled) {
        (true, _) => WriteGate::dry_run(),
        (false, true) => WriteGate::leased(Clock::Boot),
        (false, false) => WriteGate::open(),
    }
}

/// An election that this replica can take part in, if there is one.
pub struct Candidacy {
    elector: Option<Elector<ApiLeases>>,
    /// Where it runs: on no thread that works on objects.
    thread: Handle,
}

/// This replica's part in it.
pub struct Election {
    ending: CancellationToken,
    elector: Option<JoinHandle<()>>,
}

impl Candidacy {
    /// Prepares to take part, if the gate needs a lease. Sends nothing yet.
    ///
    /// # Errors
    /// When there can be no client for it.
    pub fn new(
        config: kube::Config,
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
        let namespace = if namespace.is_empty() { config.default_namespace.clone() } else { namespace };
        let lease = LeaseName { namespace, name };
        let me = ReplicaId::new(&identity);
        tracing::info!(%lease, replica = %me, "this replica waits for the lease before it writes");
        let leases = {
            // What its client does in the background is done there, too.
            let _entered = thread.enter();
            ApiLeases::connect(config, lease)?
        };
        let timing = Timing { lease_duration, renew_deadline, retry_period };
        let elector = Elector::new(leases, me, timing, gate.clone(), Clock::Boot);
        Ok(Self { elector: Some(elector), thread })
    }

    /// Takes part as soon as this replica is ready to: one that has yet to read the
    /// cluster would hold the lease and do nothing with it, while another could go on at
    /// once.
    pub fn start(
        self,
        ready: impl Future<Output = ()> + Send + 'static,
        notes: Arc<dyn LeaseAnnotations>,
    ) -> Election {
        let ending = CancellationToken::new();
        let taking_part = ending.clone();
        let take_part = |elector: Elector<ApiLeases>| async move {
            if taking_part.run_until_cancelled(ready).await.is_some() {
                elector.with_annotations(notes).run(taking_part).await;
            }
        };
        let Self { elector, thread } = self;
        Election { elector: elector.map(take_part).map(|elector| thread.spawn(elector)), ending }
    }
}

impl Election {
    /// Resolves when the elector has ended, which nobody has asked for: it would be a
    /// standby for ever.
    pub async fn fails(&mut self) -> Failure {
        match &mut self.elector {
            None => std::future::pending().await,
            Some(elector) => {
                let error = elector.await.err().map(|error| error.to_string()).unwrap_or_default();
                self.elector = None;
                Failure::new(Exit::Failure, format!("leader election ended unexpectedly {error}"))
            }
        }
    }

    /// Gives the lease back. To be called when nothing is written any more.
    pub async fn stop(self) {
        self.ending.cancel();
        if let Some(elector) = self.elector {
            // It has failed: then the lease expires.
            let _ = elector.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::GateClosed;

    fn settings(dry_run: bool, enabled: bool) -> Settings {
        let leader = LeaderSettings { enabled, ..LeaderSettings::default() };
        Settings { dry_run, leader, ..Settings::default() }
    }

    #[test]
    fn replicas_wait_for_the_lease_and_a_single_one_does_not() {
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
