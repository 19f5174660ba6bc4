//! The process of `kube-gc run`: connect, collect until a signal, shut down.

use std::path::PathBuf;
use std::time::Duration;

use super::connect;
use super::election::{Candidacy, gate};
use super::error::{Error, ErrorKind};
use super::protection::{Protections, certificates};
use super::served::ServedCollector;
use super::signals::termination;
use super::threads::{Threads, block_on};
use crate::api::Api;
use crate::config::{Settings, available_cores};
use crate::telemetry::{self, Exporter};

/// Which cluster to collect in.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The kubeconfig; `None` looks in the usual places.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; `None` takes the current one.
    pub context: Option<String>,
}

/// Collects until SIGTERM or SIGINT. The log has to be there already.
///
/// # Errors
/// The collector cannot start, or a part of it fails.
pub fn run(target: &Target, settings: &Settings) -> Result<(), Error> {
    let list_threads = settings.watch.list_thread_count(available_cores());
    block_on(list_threads, |threads| collect(target, settings, threads))?
}

async fn collect(target: &Target, settings: &Settings, threads: Threads) -> Result<(), Error> {
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    let certificates = certificates(settings)?;
    let exporter = Exporter::install().map_err(|error| Error::new(ErrorKind::Internal, error))?;
    telemetry::record::zeros();
    // Before anything that takes long, so that no signal is missed.
    let terminated = termination()?;
    tokio::pin!(terminated);
    let (config, api) = tokio::select! {
        biased;
        name = &mut terminated => {
            tracing::info!(signal = name, "stopped by a signal before startup was complete");
            return Ok(());
        }
        connected = connect(target, settings) => connected?,
    };

    let gate = api.gate().clone();
    let protections = Protections::new(settings, certificates, config.clone())?;
    let candidacy = Candidacy::new(config, &settings.leader, &gate, threads.lease.clone())
        .map_err(|error| Error::new(ErrorKind::Credentials, error))?;
    let collector =
        ServedCollector::start(api, settings, &threads, exporter, Vec::new(), protections).await?;
    let mut election = candidacy.start(collector.collects(), collector.lease_annotations());
    let ended = tokio::select! {
        name = terminated => Ok(name),
        error = collector.fails() => Err(error),
        error = election.fails() => Err(error),
    };
    let grace = match &ended {
        Ok(name) => {
            tracing::info!(
                signal = name,
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

async fn connect(target: &Target, settings: &Settings) -> Result<(kube::Config, Api), Error> {
    let Target { kubeconfig, context } = target;
    let (config, api) =
        connect::client(kubeconfig.as_deref(), context.as_deref(), settings, gate(settings)).await?;
    connect::check(&api, &config.cluster_url.to_string(), settings).await?;
    Ok((config, api))
}
