//! `kube-gc run`: connect, collect until asked to end, end cleanly.

use std::num::NonZeroU16;
use std::sync::Arc;

use actix::System;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::request_metrics::RequestMetrics;
use super::{Exit, RunArgs};
use crate::actors::{Controller, ControllerSettings, DiscoverySettings, Introspected, Placement};
use crate::api::{
    Api, ApiError, ApiSettings, ConnectError, ErrorClass, WatchSettings, WriteGate, load_config,
};
use crate::config::Settings;
use crate::http::{Introspection, Listener, bind, debug_router, health_router};
use crate::mailbox::Backoff;
use crate::telemetry::{self, Exporter};

/// Why the collector did not start, or did not end well.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    fn new(exit: Exit, message: impl std::fmt::Display) -> Self {
        Self { exit, message: message.to_string() }
    }
}

/// Runs the collector and returns how the process is to end. What went wrong is
/// said on standard error: in the log if there is one, else plainly.
#[must_use]
pub fn run(args: &RunArgs) -> Exit {
    let settings = match args.settings() {
        Ok(settings) => settings,
        Err(error) => return plainly(&Failure::new(Exit::Usage, error)),
    };
    if let Err(error) = telemetry::logging::init(&settings.log) {
        return plainly(&Failure::new(Exit::Failure, error));
    }
    // The pool of threads carries requests, decoding and HTTP; actors run beside it
    // and only coordinate.
    let runtime = || match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the operating system gives no threads");
            std::process::exit(i32::from(Exit::Failure.code()))
        }
    };
    match System::with_tokio_rt(runtime).block_on(collect(args, settings)) {
        Ok(()) => Exit::Success,
        Err(Failure { exit, message }) => {
            tracing::error!(exit_code = exit.code(), "{message}");
            exit
        }
    }
}

#[expect(clippy::print_stderr, reason = "there is no log yet, and a person is waiting for the reason")]
fn plainly(failure: &Failure) -> Exit {
    eprintln!("kube-gc: {}", failure.message);
    failure.exit
}

async fn collect(args: &RunArgs, settings: Settings) -> Result<(), Failure> {
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    let exporter = Exporter::install().map_err(|error| Failure::new(Exit::Failure, error))?;
    telemetry::record::zeros();
    // Before anything can take long: a signal is never missed.
    let ended = ended_by_signal()?;
    tokio::pin!(ended);
    let api = tokio::select! {
        biased;
        name = &mut ended => {
            tracing::info!(signal = name, "ended before it began");
            return Ok(());
        }
        api = connect(args, &settings) => api?,
    };

    let health = bind(Listener::Health, settings.http.listen).await;
    let health = health.map_err(|error| Failure::new(Exit::Failure, error))?;
    let debug = bind(Listener::Debug, settings.http.debug_listen).await;
    let debug = debug.map_err(|error| Failure::new(Exit::Failure, error))?;

    let controller = Controller::start(api, controller_settings(&settings), exporter.clone())
        .map_err(|error| Failure::new(Exit::Failure, format!("no thread for the graph: {error}")))?;
    let introspected = Introspected::new(controller.view().clone(), settings.ignored_type_warnings());
    let introspection: Arc<dyn Introspection> = Arc::new(introspected);
    let (serving, closing) = (TaskTracker::new(), CancellationToken::new());
    serving.spawn(health.serve(health_router(Arc::clone(&introspection), exporter), closing.clone()));
    serving.spawn(debug.serve(debug_router(introspection), closing.clone()));
    serving.close();

    let name = tokio::select! {
        name = ended => name,
        () = serving.wait() => {
            return Err(Failure::new(Exit::Failure, "the HTTP servers ended unexpectedly"));
        }
    };
    tracing::info!(signal = name, grace = ?settings.shutdown.grace, "ending");
    let finished = controller.stop(settings.shutdown.grace).await;
    closing.cancel();
    serving.wait().await;
    tracing::info!(finished, "ended");
    Ok(())
}

/// Resolves with the name of the first signal that asks the process to end.
fn ended_by_signal() -> Result<impl Future<Output = &'static str>, Failure> {
    let failed = |error| Failure::new(Exit::Failure, format!("signals cannot be received: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// Finds the API server and makes sure that it lets us in, while a person may
/// still be watching.
async fn connect(args: &RunArgs, settings: &Settings) -> Result<Api, Failure> {
    let config = load_config(args.kubeconfig.as_deref(), args.context.as_deref()).await;
    let config = config.map_err(|error| Failure::new(Exit::Kubeconfig, error))?;
    let server = config.cluster_url.clone();
    let gate = if settings.dry_run { WriteGate::dry_run() } else { WriteGate::open() };
    let api = Api::connect(config, api_settings(settings), gate).map_err(|error| {
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
    Ok(api)
}

fn refused(server: &http::Uri, error: &ApiError) -> Failure {
    match (error.class, error.code) {
        (_, Some(401)) => Failure::new(
            Exit::Credentials,
            format!(
                "{server} refuses the credentials: {error}; check the kubeconfig's user, or the token's age"
            ),
        ),
        (ErrorClass::Denied, _) => Failure::new(
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

fn api_settings(settings: &Settings) -> ApiSettings {
    ApiSettings {
        request_timeout: settings.client.request_timeout,
        page_size: settings.watch.page_size,
        qps: settings.client.qps,
        burst: settings.client.burst,
        watch: WatchSettings {
            least_backoff: settings.watch.min_backoff,
            greatest_backoff: settings.watch.max_backoff,
            ..WatchSettings::default()
        },
        observer: Arc::new(RequestMetrics),
        ..ApiSettings::default()
    }
}

fn controller_settings(settings: &Settings) -> ControllerSettings {
    let partitions = u16::try_from(settings.graph.partition_count()).ok().and_then(NonZeroU16::new);
    ControllerSettings {
        delete_workers: settings.workers.delete,
        orphan_workers: settings.workers.orphan,
        partitions: partitions.unwrap_or(NonZeroU16::MIN),
        placement: Placement::OwnThreads,
        absent_owners: settings.graph.absent_owner_capacity,
        backoff: Backoff { min: settings.retry.min, max: settings.retry.max },
        discovery: DiscoverySettings {
            interval: settings.discovery.interval,
            ignored: settings.discovery.ignored.clone(),
            sync_timeout: settings.startup.sync_timeout,
        },
        decisions: None,
    }
}
