//! The process of `kube-gc node`: one look, one pass, or the loop with its listeners.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::connect;
use super::process::{Threads, block_on, termination, unmarked};
use super::run::Target;
use super::served::{Bound, certificates};
use super::{Error, ErrorKind};
use crate::introspect::node::NodeView;
use crate::node::run::{self, NodeContext, NodeEvents, NodeStatus};
use crate::node::{Asked, Look, NodeCollector, NodeError, NodeOptions, PodSource, Report, why_dry};
use kube_gc_client::{Api, ApiError, Connection, WriteGate};
use kube_gc_config::{PodKnowledge, Settings};
use kube_gc_cri::{Client, Rpc};
use kube_gc_node::pass::Scope;
use kube_gc_node::plan::Young;
use kube_gc_observe::http::health_router;
use kube_gc_observe::telemetry::{Exporter, logging, record};

/// How often gauges of the process are set. Prometheus scrapes less often.
const SAMPLE: Duration = Duration::from_secs(5);

/// Looks once and plans. Writes nothing, not even the state file.
///
/// # Errors
/// The container runtime or the API server cannot be used.
pub fn plan(target: &Target, settings: &Settings, asked: &Asked) -> Result<Report, Error> {
    block_on(1, unmarked, |_| async {
        let mut node = Node::connect(target, settings, asked, Pods::Read).await?;
        node.look().await.map(|(report, _)| report)
    })?
}

/// One pass. In a dry run, only the plan of it.
///
/// # Errors
/// The container runtime or the API server cannot be used.
pub fn once(target: &Target, settings: &Settings, asked: &Asked) -> Result<Report, Error> {
    block_on(1, unmarked, |_| async {
        let terminated = termination()?;
        tokio::pin!(terminated);
        let looked = async {
            // So that a pod that is bound during the pass is known.
            let mut node = Node::connect(target, settings, asked, Pods::Watched).await?;
            let (report, look) = node.look_for(asked).await?;
            Ok::<_, Error>((node, report, look))
        };
        let (mut node, report, look) = tokio::select! {
            biased;
            signal = &mut terminated => {
                let message = format!("ended by {signal} before anything was removed");
                return Err(Error::new(ErrorKind::Internal, message));
            }
            looked = looked => looked?,
        };
        if report.dry_run.is_some() {
            return Ok(report);
        }
        node.collector.save();
        let cancel = CancellationToken::new();
        let ending = async {
            let signal = terminated.await;
            tracing::info!(signal, "ending after the removal in progress");
            cancel.cancel();
            std::future::pending().await
        };
        let result = tokio::select! {
            result = node.collector.carry_out(&look, Scope::All, &cancel) => result,
            result = ending => result,
        };
        Ok(report.with(result.map_err(|error| node_error(&error))?))
    })?
}

/// How pods are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pods {
    Read,
    Watched,
}

/// One node, and how it is collected.
struct Node {
    options: NodeOptions,
    collector: NodeCollector,
    /// How the API server is reached; nothing without one.
    api: Option<(Connection, Api)>,
}

impl Node {
    /// Finds the socket, reads the kubeconfig, and then connects to the container runtime.
    async fn connect(target: &Target, settings: &Settings, asked: &Asked, how: Pods) -> Result<Self, Error> {
        let options = NodeOptions::new(settings, asked);
        let mut options = options.map_err(|error| node_error(&error))?;
        // First: without a runtime, nobody needs to know how to reach a cluster.
        Client::probe(&options.endpoint).await.map_err(|error| node_error(&error.into()))?;
        let api = match settings.node.pods {
            PodKnowledge::Api => Some(api(target, settings).await?),
            _ => None,
        };
        let pods = api.as_ref().map(|(_, api)| PodSource::new(api.clone(), &options.name));
        let pods = if how == Pods::Watched { pods.map(PodSource::watched) } else { pods };
        let (ledger, problems) = options.state.read();
        problems.iter().for_each(|problem| tracing::warn!("{problem}"));
        let client = Client::connect(&options.endpoint, client_settings()).await;
        let client = client.map_err(|error| node_error(&error.into()))?;
        let collector = NodeCollector::new(client, options.rules.clone(), options.in_pod, pods, ledger);
        let collector = collector.with_state(options.state.clone());
        Ok(Self { options, collector, api })
    }

    /// A look, and another one when what is only too young is old enough, if somebody asked to wait for that.
    async fn look_for(&mut self, asked: &Asked) -> Result<(Report, Look), Error> {
        let (report, look) = self.look().await?;
        let (plan, may_act) = (&report.plan, report.dry_run.is_none());
        let Some(young) = plan.young.filter(|_| asked.wait && may_act) else {
            return Ok((report, look));
        };
        // Whoever ends it now need not wait again.
        self.collector.save();
        let Young { count, wait_seconds, .. } = young;
        tracing::info!(images = count, seconds = wait_seconds, "waiting until unused images are old enough");
        tokio::time::sleep(Duration::from_secs(wait_seconds)).await;
        self.look().await
    }

    /// One look. Somebody waits for it, so an API server that does not answer is an error.
    async fn look(&mut self) -> Result<(Report, Look), Error> {
        let look = self.collector.look_beside(&mut self.options).await.map_err(|error| node_error(&error))?;
        if let Some(error) = &look.api_error {
            let server = self.api.as_ref().map(|(connection, _)| connection.server());
            return Err(rejected(&server.unwrap_or_default(), error));
        }
        Ok((Report::new(&self.options, self.collector.runtime(), &look), look))
    }
}

/// What to do without an API server.
const WITHOUT: &str = "or collect without an API server (--pods none, `node.pods`)";

/// The client of the API server. Sends nothing yet.
async fn api(target: &Target, all: &Settings) -> Result<(Connection, Api), Error> {
    let gate = if all.dry_run { WriteGate::dry_run() } else { WriteGate::open() };
    let connected = async { connect::client(connect::config(target).await?, all.into(), gate).await };
    connected.await.map_err(|error| Error::new(error.kind(), format!("{error}; {WITHOUT}")))
}

/// The settings of the client of the container runtime: each call is counted.
fn client_settings() -> kube_gc_cri::Settings {
    let observer = |rpc: Rpc, failed, elapsed| record::runtime_operation(rpc.operation(), failed, elapsed);
    kube_gc_cri::Settings { observer: Some(Arc::new(observer)), ..kube_gc_cri::Settings::default() }
}

/// Why the container runtime cannot be used.
fn node_error(error: &NodeError) -> Error {
    use kube_gc_cri::Error as E;
    let where_to_set = " (--runtime-endpoint, `node.runtime_endpoint`)";
    let (kind, hint) = match error {
        NodeError::Runtime(error) => match error {
            E::MalformedEndpoint { .. }
            | E::SeveralRuntimes { .. }
            | E::NotASocket { .. }
            | E::NotCri { .. } => (ErrorKind::Settings, where_to_set),
            E::NoPermission { .. } => (ErrorKind::Forbidden, ""),
            error if error.is_unanswered() => (ErrorKind::Unreachable, where_to_set),
            E::NoRuntime => (ErrorKind::Unreachable, where_to_set),
            _ => (ErrorKind::Internal, ""),
        },
        NodeError::Moved { .. } => (ErrorKind::Unreachable, ""),
        NodeError::Unsafe(_) | NodeError::Ended => (ErrorKind::Internal, ""),
    };
    Error::new(kind, format!("{error}{hint}"))
}

/// Why the API server does not tell the pods of this node.
fn rejected(server: &str, error: &ApiError) -> Error {
    let error = connect::rejected(server, error, "allow this user to get, list and watch pods");
    Error::new(error.kind(), format!("the pods of this node are not known: {error}, {WITHOUT}"))
}

/// Collects this node until SIGTERM or SIGINT. The log has to be there already.
///
/// # Errors
/// It cannot start, or a part of it fails.
pub fn run(target: &Target, settings: &Settings) -> Result<(), Error> {
    block_on(1, unmarked, |threads| collect(target, settings, threads))?
}

async fn collect(target: &Target, settings: &Settings, threads: Threads) -> Result<(), Error> {
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    let certificates = certificates(settings)?;
    let exporter = Exporter::install().map_err(|error| Error::new(ErrorKind::Internal, error))?;
    record::node_zeros();
    // Before anything that takes long, so that no signal is missed.
    let terminated = termination()?;
    tokio::pin!(terminated);
    let asked = Asked::default();
    let Node { options, collector, api } = tokio::select! {
        biased;
        signal = &mut terminated => {
            tracing::info!(signal, "stopped by a signal before startup was complete");
            return Ok(());
        }
        node = Node::connect(target, settings, &asked, Pods::Watched) => node?,
    };
    let events = api.as_ref().and_then(|(_, api)| NodeEvents::new(api.clone(), &options.name));
    let listeners =
        Bound::new(settings, certificates, api.as_ref().map(|(connection, _)| connection)).await?;
    tracing::info!(
        node = options.name,
        runtime = collector.runtime(),
        endpoint = %options.endpoint,
        dry_run = why_dry(&options),
        "collecting"
    );

    let (status, published) = watch::channel(NodeStatus::default());
    let cancel = CancellationToken::new();
    let context = NodeContext { events, status, cancel: cancel.clone() };
    let mut collecting = tokio::spawn(run::collect(context, options, collector));
    let view = NodeView::new(published);
    let asked = view.clone();
    let health = health_router(move || asked.readiness(), exporter);
    let serving = listeners.serve(health, view.clone().debug_router(), &threads.lists);

    let ended = tokio::select! {
        signal = terminated => Ok(signal),
        collected = &mut collecting => Err(match collected {
            Ok(Err(error)) => node_error(&error),
            Ok(Ok(())) => Error::new(ErrorKind::Internal, "passes ended unexpectedly"),
            Err(error) => {
                tracing::error!(%error, "a pass failed unexpectedly; restart kube-gc");
                Error::new(ErrorKind::Internal, "a pass failed unexpectedly")
            }
        }),
        error = serving.fails() => Err(error),
        () = sample(view) => Err(Error::new(ErrorKind::Internal, "sampling ended unexpectedly")),
    };
    if let Ok(signal) = &ended {
        tracing::info!(signal, "shutting down");
    }
    cancel.cancel();
    let finished =
        collecting.is_finished() || tokio::time::timeout(settings.shutdown.grace, collecting).await.is_ok();
    serving.stop().await;
    ended?;
    if finished {
        tracing::info!("shut down");
    } else {
        tracing::warn!("shut down during a removal; raise shutdown.grace if removals need longer");
    }
    Ok(())
}

/// Sets the gauges of the process, as long as it runs.
async fn sample(view: NodeView) {
    let mut ticks = interval(SAMPLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        record::ready(view.readiness().ready());
        record::tasks(Handle::current().metrics().num_alive_tasks());
        record::log_waiting(logging::waiting());
    }
}
