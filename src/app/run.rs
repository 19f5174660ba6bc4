//! The process of `kube-gc run`: connect, take part in the election, collect until a signal, shut down.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustix::process::getppid;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::process::{Parent, ReadyFile, Threads, block_on, no_threads, runtime, termination, unmarked};
use super::served::{Bound, ServedCollector, certificates};
use super::{Error, ErrorKind, connect};
use kube_gc_client::{Clock, ConnectError, Connection, WriteGate};
use kube_gc_config::{LeaderSettings, Settings, available_cores};
use kube_gc_leader::{ApiLeases, Elector, LeaseAnnotations, LeaseName, Leases, ReplicaId, Timing};
use kube_gc_observe::telemetry::{self, Exporter, record};

/// Which API server to connect to, and as whom. This is no setting: a file of settings fits several clusters.
#[derive(Args, Clone, Debug, Default)]
pub struct Target {
    /// Kubeconfig to connect with
    ///
    /// The default is the first of: the files of $KUBECONFIG, ~/.kube/config, and, in
    /// a pod, its service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// User to impersonate
    #[arg(long = "as", value_name = "USER")]
    pub user: Option<String>,

    /// Group to impersonate; repeatable
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub groups: Vec<String>,

    /// Uid to impersonate
    #[arg(long = "as-uid", value_name = "UID", requires = "user")]
    pub uid: Option<String>,
}

/// What the program that starts a collector wants of it.
#[derive(Args, Clone, Debug, Default)]
pub struct RunOptions {
    /// File to write as soon as the collector is ready, for programs that start it
    ///
    /// JSON with the process id, the version and the addresses of both listeners. It appears
    /// at once and complete, and is removed at the end.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,

    /// End when the process that started this one ends
    ///
    /// With its process id, this process also ends if its parent is another one from the start.
    #[arg(
        long,
        value_name = "PID",
        num_args = 0..=1,
        require_equals = true,
        value_parser = clap::value_parser!(i32).range(1..),
    )]
    pub exit_with_parent: Option<Option<i32>>,
}

/// Collects until SIGTERM or SIGINT. The log has to be there already.
///
/// # Errors
/// The collector cannot start, or a part of it fails.
pub fn run(target: &Target, settings: &Settings, options: &RunOptions) -> Result<(), Error> {
    let parent = options.exit_with_parent.map(|pid| Parent::new(pid, getppid())).transpose()?;
    let list_threads = settings.watch.list_thread_count(available_cores());
    // It renews the Lease and does nothing else, so that no other work delays a renewal.
    let lease = runtime("lease", 1).build().map_err(no_threads)?;
    let collecting = |threads| collect(target, settings, options, parent, threads, lease.handle());
    let ran = block_on(list_threads, unmarked, collecting)?;
    lease.shutdown_background();
    ran
}

async fn collect(
    target: &Target,
    settings: &Settings,
    options: &RunOptions,
    parent: Option<Parent>,
    threads: Threads,
    lease: &Handle,
) -> Result<(), Error> {
    let ready_file = options.ready_file.as_deref().map(ReadyFile::at).transpose()?;
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    let certificates = certificates(settings)?;
    let exporter = Exporter::install().map_err(|error| Error::new(ErrorKind::Internal, error))?;
    telemetry::record::zeros();
    // Before anything that takes long, so that no signal is missed.
    let terminated = ends(termination()?, parent);
    tokio::pin!(terminated);
    let connected = async { connect::collector(connect::config(target).await?, settings).await };
    let (connection, api) = tokio::select! {
        biased;
        name = &mut terminated => {
            tracing::info!(reason = name, "stopped before startup was complete");
            return Ok(());
        }
        connected = connected => connected?,
    };

    let gate = api.gate().clone();
    let listeners = Bound::new(settings, certificates, Some(&connection)).await?;
    let candidate = candidate(&connection, &settings.leader, &gate, lease)
        .map_err(|error| Error::new(ErrorKind::Credentials, error))?;
    let collector = ServedCollector::start(api, settings, &threads, exporter, Vec::new(), listeners)?;
    let status = collector.controller.status();
    let annotations = Arc::new(status.brake.clone());
    let mut election = Election::join(candidate, lease, status.collects(), annotations);
    let runs = async {
        status.collects().await;
        let serving = &collector.serving;
        let written = ready_file.as_ref().map(|file| file.write(serving.health, serving.debug));
        match written {
            Some(Err(error)) => error,
            // From now on, only the other branches end it.
            Some(Ok(())) | None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        name = terminated => Ok(name),
        error = runs => Err(error),
        error = collector.serving.fails() => Err(error),
        error = election.fails() => Err(error),
    };
    let grace = match &ended {
        Ok(name) => {
            tracing::info!(
                reason = name,
                grace_seconds = settings.shutdown.grace.as_secs_f64(),
                "shutting down"
            );
            settings.shutdown.grace
        }
        Err(_) => Duration::ZERO,
    };
    // The lease is released after the last write: the next leader must not start before.
    let finished = collector.stop(grace).await;
    election.stop().await;
    ended?;
    if finished {
        tracing::info!("shut down");
    } else {
        tracing::warn!(
            "shut down before all requests were answered; raise shutdown.grace if they need longer"
        );
    }
    Ok(())
}

/// Resolves with the reason when the process is to end.
async fn ends(signal: impl Future<Output = &'static str>, parent: Option<Parent>) -> &'static str {
    let orphaned = async {
        match parent {
            Some(parent) => parent.ends().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        name = signal => name,
        () = orphaned => "the parent process has ended",
    }
}

/// Prepares an election if the gate needs a Lease. Sends nothing yet. The thread does no work on objects.
///
/// # Errors
/// No client for the Lease can be built.
pub fn candidate(
    connection: &Connection,
    settings: &LeaderSettings,
    gate: &WriteGate,
    thread: &Handle,
) -> Result<Option<Elector<ApiLeases>>, ConnectError> {
    if !gate.needs_lease() {
        return Ok(None);
    }
    record::election();
    let LeaderSettings { ref namespace, ref name, lease_duration, renew_deadline, retry_period, .. } =
        *settings;
    let namespace = if namespace.is_empty() { &connection.config().default_namespace } else { namespace };
    let lease = LeaseName { namespace: namespace.clone(), name: name.clone() };
    let me = ReplicaId::new(&settings.identity);
    tracing::info!(%lease, replica = %me, "this replica does not write until it acquires the Lease");
    let leases = {
        // The client spawns its background tasks there, too.
        let _entered = thread.enter();
        ApiLeases::connect(connection, lease)?
    };
    let timing = Timing { lease_duration, renew_deadline, retry_period };
    Ok(Some(Elector::new(leases, me, timing, gate.clone(), Clock::Boot)))
}

/// An election that this replica has joined, or none.
pub struct Election {
    ending: CancellationToken,
    elector: Option<JoinHandle<()>>,
}

impl Election {
    /// Joins the election once this replica is ready. A replica that still reads the cluster would
    /// hold the lease without using it, while another replica could continue the work at once.
    pub fn join<L: Leases>(
        elector: Option<Elector<L>>,
        thread: &Handle,
        ready: impl Future<Output = ()> + Send + 'static,
        annotations: Arc<dyn LeaseAnnotations>,
    ) -> Self {
        let ending = CancellationToken::new();
        let token = ending.clone();
        let run = |elector: Elector<L>| async move {
            if token.run_until_cancelled(ready).await.is_some() {
                elector.with_annotations(annotations).run(token).await;
            }
        };
        Self { elector: elector.map(|elector| thread.spawn(run(elector))), ending }
    }

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
    use crate::app::connect::gate;
    use kube_gc_client::GateClosed;
    use kube_gc_leader::{LeaseError, NoAnnotations};

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
        let lease = runtime("lease", 1).build().unwrap();
        let times = block_on(1, unmarked, async |_| {
            let election = Election::join(Some(elector), lease.handle(), async {}, Arc::new(NoAnnotations));
            // Nothing else is polled on this thread meanwhile.
            let times = (0..5).map_while(|_| renewed.recv_timeout(Duration::from_secs(60)).ok()).count();
            assert!(gate.permit().is_ok(), "it leads");
            election.stop().await;
            times
        });
        assert_eq!(times, Ok(5));
    }

    fn settings(dry_run: bool, enabled: bool) -> Settings {
        let mut settings = Settings::default();
        (settings.dry_run, settings.leader.enabled) = (dry_run, enabled);
        settings
    }

    #[test]
    fn replicas_wait_for_the_lease_and_neither_a_single_collector_nor_a_dry_run_does() {
        assert!(gate(&settings(false, false)).permit().is_ok());
        assert_eq!(gate(&settings(false, true)).permit(), Err(GateClosed::Standby));
        let gate = gate(&settings(true, true));
        assert_eq!(gate.permit(), Err(GateClosed::DryRun));
        assert!(!gate.needs_lease(), "it would write the lease");
    }
}
