//! The loop of `kube-gc node run`, with its listeners.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Node;
use super::connect::Begun;
use crate::actors::node::{self, NodeContext, NodeEvents, NodeStatus};
use crate::app::error::{Error, ErrorKind};
use crate::app::protection::{Protections, certificates};
use crate::app::run::Target;
use crate::app::signals::termination;
use crate::app::threads::{Threads, block_on_one_thread};
use crate::config::{Listeners, Settings};
use crate::http::{Listener, NodeIntrospection, bind, node_debug_router, node_health_router};
use crate::introspect::node::NodeView;
use crate::node::PodSource;
use crate::telemetry::{Exporter, logging, record};

/// How often gauges of the process are set. Prometheus scrapes less often.
const SAMPLE: Duration = Duration::from_secs(5);

/// Collects this node until SIGTERM or SIGINT. The log has to be there already.
///
/// # Errors
/// It cannot start, or a part of it fails.
pub fn run(target: &Target, settings: &Settings) -> Result<(), Error> {
    block_on_one_thread(|threads| collect(target, settings, threads))?
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
    let begun = Begun::new(target, settings, None).await?.watched();
    let events = match &begun.pods {
        PodSource::Api { api, node } | PodSource::Watched { api, node, .. } => {
            NodeEvents::new(api.clone(), node)
        }
        PodSource::None => None,
    };
    let protections = match (&begun.connection, settings.access.listeners) {
        (Some(connection), _) => Protections::new(settings, certificates, connection)?,
        (None, Listeners::None) => Protections::unreviewed(settings, certificates),
        (None, _) => {
            return Err(Error::new(
                ErrorKind::Settings,
                "`access.listeners` needs the API server, and `node.pods` is \"none\"; set one of them otherwise",
            ));
        }
    };
    let health = bind(Listener::Health, settings.http.listen).await;
    let health = health.map_err(|error| Error::new(ErrorKind::Address, error))?;
    let debug = bind(Listener::Debug, settings.http.debug_listen).await;
    let debug = debug.map_err(|error| Error::new(ErrorKind::Address, error))?;
    let Node { options, collector, .. } = tokio::select! {
        biased;
        signal = &mut terminated => {
            tracing::info!(signal, "stopped by a signal before startup was complete");
            return Ok(());
        }
        node = Node::from(begun) => node?,
    };
    tracing::info!(
        node = options.name,
        runtime = collector.runtime(),
        endpoint = %options.endpoint,
        dry_run = crate::node::why_dry(&options),
        "collecting"
    );

    let (status, published) = watch::channel(NodeStatus::default());
    let cancel = CancellationToken::new();
    let context = NodeContext { events, status, cancel: cancel.clone() };
    let mut collecting = tokio::spawn(node::collect(context, options, collector));
    let view: Arc<dyn NodeIntrospection> = Arc::new(NodeView::new(published));
    let (serving, closing) = (TaskTracker::new(), CancellationToken::new());
    let pages = node_health_router(Arc::clone(&view), exporter);
    serving.spawn_on(health.protected(protections.health).serve(pages, closing.clone()), &threads.lists);
    let pages = node_debug_router(Arc::clone(&view));
    serving.spawn_on(debug.protected(protections.debug).serve(pages, closing.clone()), &threads.lists);
    serving.close();
    protections.certificates.map(|certificates| tokio::spawn(certificates.keep(closing.clone())));

    let ended = tokio::select! {
        signal = terminated => Ok(signal),
        collected = &mut collecting => {
            let error = collected.err().map(tracing::field::display);
            tracing::error!(error, "a pass failed unexpectedly; restart kube-gc");
            Err("a pass failed unexpectedly")
        }
        () = serving.wait() => Err("the HTTP servers ended unexpectedly"),
        () = sample(view) => Err("sampling ended unexpectedly"),
    };
    if let Ok(signal) = ended {
        tracing::info!(signal, "shutting down");
    }
    cancel.cancel();
    let finished =
        collecting.is_finished() || tokio::time::timeout(settings.shutdown.grace, collecting).await.is_ok();
    closing.cancel();
    serving.wait().await;
    ended.map_err(|why| Error::new(ErrorKind::Internal, why))?;
    if finished {
        tracing::info!("shut down");
    } else {
        tracing::warn!("shut down during a removal; raise shutdown.grace if removals need longer");
    }
    Ok(())
}

/// Sets the gauges of the process, as long as it runs.
async fn sample(view: Arc<dyn NodeIntrospection>) {
    let mut ticks = interval(SAMPLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        record::ready(view.readiness().ready());
        record::tasks(Handle::current().metrics().num_alive_tasks());
        record::log_waiting(logging::waiting());
    }
}
