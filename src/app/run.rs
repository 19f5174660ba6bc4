//! The process of `kube-gc run`: connect, collect until a signal, shut down.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::connect;
use super::election::{Candidacy, gate};
use super::error::{Error, ErrorKind};
use super::parent::Parent;
use super::protection::{Protections, certificates};
use super::ready_file::ReadyFile;
use super::served::ServedCollector;
use super::settings;
use super::signals::termination;
use super::threads::{Threads, block_on};
use crate::api::{Api, Connection};
use crate::config::{Settings, available_cores};
use crate::telemetry::{self, Exporter};

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
    #[arg(long)]
    pub exit_with_parent: bool,
}

/// Collects until SIGTERM or SIGINT. The log has to be there already.
///
/// # Errors
/// The collector cannot start, or a part of it fails.
pub fn run(target: &Target, settings: &Settings, options: &RunOptions) -> Result<(), Error> {
    let parent = options.exit_with_parent.then(Parent::present);
    let list_threads = settings.watch.list_thread_count(available_cores());
    block_on(list_threads, |threads| collect(target, settings, options, parent, threads))?
}

async fn collect(
    target: &Target,
    settings: &Settings,
    options: &RunOptions,
    parent: Option<Parent>,
    threads: Threads,
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
    let (connection, api) = tokio::select! {
        biased;
        name = &mut terminated => {
            tracing::info!(reason = name, "stopped before startup was complete");
            return Ok(());
        }
        connected = connect(target, settings) => connected?,
    };

    let gate = api.gate().clone();
    let protections = Protections::new(settings, certificates, &connection)?;
    let candidacy = Candidacy::new(&connection, &settings.leader, &gate, threads.lease.clone())
        .map_err(|error| Error::new(ErrorKind::Credentials, error))?;
    let collector =
        ServedCollector::start(api, settings, &threads, exporter, Vec::new(), protections).await?;
    let mut election = candidacy.start(collector.collects(), collector.lease_annotations());
    let ready = async {
        collector.collects().await;
        match &ready_file {
            Some(file) => file.write(collector.health(), collector.debug()),
            None => Ok(()),
        }
    };
    let runs = async {
        match ready.await {
            // From now on, only the other branches end it.
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    };
    let ended = tokio::select! {
        name = terminated => Ok(name),
        error = runs => Err(error),
        error = collector.fails() => Err(error),
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

async fn connect(target: &Target, settings: &Settings) -> Result<(Connection, Api), Error> {
    let (connection, api) = connect::client(target, settings::api(settings), gate(settings)).await?;
    connect::check(&api, &connection.config().cluster_url.to_string(), settings).await?;
    Ok((connection, api))
}
