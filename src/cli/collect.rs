//! `kube-gc run`: connect, collect until asked to end, end cleanly.

use std::time::Duration;

use super::collector::{Collector, api_settings};
use super::failure::Failure;
use super::leading::{Candidacy, gate};
use super::serving::{Protections, certificates};
use super::system::{Threads, block_on, ended_by_signal};
use super::{Exit, RunArgs};
use crate::api::{Api, ApiError, ConnectError, ErrorClass, load_config};
use crate::config::{Settings, available_cores};
use crate::telemetry::{self, Exporter};

/// Runs the collector and returns how the process is to end. What went wrong is
/// said on standard error: in the log if there is one, else plainly.
#[must_use]
pub fn run(args: &RunArgs) -> Exit {
    let settings = match args.settings() {
        Ok(settings) => settings,
        Err(error) => return Failure::new(Exit::Usage, error).say(),
    };
    if let Err(error) = telemetry::logging::init(&settings.log) {
        return Failure::new(Exit::Failure, error).say();
    }
    let list_threads = settings.watch.list_thread_count(available_cores());
    match block_on(list_threads, |threads| collect(args, settings, threads)) {
        Ok(()) => Exit::Success,
        Err(Failure { exit, message }) => {
            tracing::error!(exit_code = exit.code(), "{message}");
            exit
        }
    }
}

async fn collect(args: &RunArgs, settings: Settings, threads: Threads) -> Result<(), Failure> {
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    let certificates = certificates(&settings)?;
    let exporter = Exporter::install().map_err(|error| Failure::new(Exit::Failure, error))?;
    telemetry::record::zeros();
    // Before anything can take long: a signal is never missed.
    let ended = ended_by_signal()?;
    tokio::pin!(ended);
    let (config, api) = tokio::select! {
        biased;
        name = &mut ended => {
            tracing::info!(signal = name, "ended before it began");
            return Ok(());
        }
        connected = connect(args, &settings) => connected?,
    };

    let gate = api.gate().clone();
    let protections = Protections::new(&settings, certificates, config.clone())?;
    let candidacy = Candidacy::new(config, &settings.leader, &gate, threads.lease.clone())
        .map_err(|error| Failure::new(Exit::Credentials, error))?;
    let collector = Collector::start(api, &settings, &threads, exporter, Vec::new(), protections).await?;
    let mut election = candidacy.start(collector.collects(), collector.brake());
    let ended = tokio::select! {
        name = ended => Ok(name),
        failure = collector.fails() => Err(failure),
        failure = election.fails() => Err(failure),
    };
    let grace = match &ended {
        Ok(name) => {
            tracing::info!(signal = name, grace = ?settings.shutdown.grace, "ending");
            settings.shutdown.grace
        }
        Err(_) => Duration::ZERO,
    };
    // It leads until the last write is done: whoever comes next must not begin before.
    let finished = collector.stop(grace).await;
    election.stop().await;
    ended?;
    tracing::info!(finished, "ended");
    Ok(())
}

/// Finds the API server and makes sure that it lets us in, while a person may
/// still be watching.
async fn connect(args: &RunArgs, settings: &Settings) -> Result<(kube::Config, Api), Failure> {
    let config = load_config(args.kubeconfig.as_deref(), args.context.as_deref()).await;
    let config = config.map_err(|error| Failure::new(Exit::Kubeconfig, error))?;
    let server = config.cluster_url.clone();
    let api = Api::connect(config.clone(), api_settings(settings), gate(settings)).map_err(|error| {
        let exit = match error {
            ConnectError::Config(_) => Exit::Kubeconfig,
            ConnectError::Client { .. } => Exit::Credentials,
        };
        Failure::new(exit, error)
    })?;
    let version = api.probe().await.map_err(|error| refused(&server, &error))?;
    let allowed = api.may_list().await.map_err(|error| refused(&server, &error))?;
    if !allowed {
        return Err(Failure::new(
            Exit::Forbidden,
            format!(
                "{server} lets nothing be listed with these credentials; a garbage collector has to list, watch, \
                 get, patch and delete every resource: see deploy/README.md for the role that it needs"
            ),
        ));
    }
    tracing::info!(%server, version = version.git_version, dry_run = settings.dry_run, "connected");
    Ok((config, api))
}

fn refused(server: &http::Uri, error: &ApiError) -> Failure {
    match (error.class, error.code) {
        (_, Some(401)) => Failure::new(
            Exit::Credentials,
            format!(
                "{server} refuses the credentials: {error}; check the kubeconfig's user, or the token's age"
            ),
        ),
        (ErrorClass::Denied, None) => Failure::new(
            Exit::Credentials,
            format!(
                "there are no credentials for {server}: {error}; check the kubeconfig's user, or the token's \
                 file, which must not end in a line break"
            ),
        ),
        (ErrorClass::Denied, Some(_)) => Failure::new(
            Exit::Forbidden,
            format!(
                "{server} does not allow what a garbage collector needs: {error}; see deploy/README.md for the role"
            ),
        ),
        (_, None) if error.message.contains("certificate") => Failure::new(
            Exit::Credentials,
            format!("{server} is not trusted: {error}; check certificate-authority in the kubeconfig"),
        ),
        (_, None) => Failure::new(
            Exit::Unreachable,
            format!("{server} cannot be reached: {error}; check the address and that the server runs"),
        ),
        (_, Some(_)) => {
            Failure::new(Exit::Unreachable, format!("{server} does not answer as an API server: {error}"))
        }
    }
}
