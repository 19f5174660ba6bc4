//! The thread of a collector inside an application: it carries the actors and all requests about
//! single objects. Lists and watches have runtimes of their own, as in `kube-gc run`.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;

use crate::app::controller::Controller;
use crate::app::process::runtime;
use crate::app::settings::{self, gate};
use crate::app::{Error, ErrorKind, connect};
use crate::introspect::CollectorIntrospection;
use kube_gc_client::Api;
use kube_gc_config::{Settings, available_cores};
use kube_gc_controller::actors::{Placement, on_fatal};
use kube_gc_observe::telemetry::Exporter;

/// The state of a collector.
#[derive(Clone, Debug)]
pub enum State {
    Running,
    /// A part that the others depend on has failed.
    Failed(Error),
    Stopped {
        /// Whether all requests finished within the grace period.
        finished: bool,
    },
}

/// What the thread needs.
pub struct Task {
    pub client: kube::Client,
    pub settings: Settings,
    pub state: watch::Sender<State>,
    pub started: oneshot::Sender<Result<CollectorIntrospection, Error>>,
    /// Receives the grace period. The collector stops at once when the sender is dropped.
    pub stop: oneshot::Receiver<Duration>,
}

/// The error of a collector whose thread has ended for no known reason.
pub fn ended() -> Error {
    Error::new(ErrorKind::Internal, "the collector has ended unexpectedly; start another one")
}

/// Starts the thread. The receiver of `started` learns whether the collector runs.
pub fn spawn(task: Task) -> std::io::Result<()> {
    let report = || {
        let state = task.state.clone();
        move || report_failures(&state)
    };
    let actors = Builder::new_current_thread().enable_all().build()?;
    let lists = runtime("lists", task.settings.watch.list_thread_count(available_cores()), report())?;
    let watches = runtime("watches", 1, report())?;
    let report = report();
    std::thread::Builder::new().name("kube-gc".to_owned()).spawn(move || {
        report();
        let runtimes = Some((lists.handle().clone(), watches.handle().clone()));
        let placement = Placement { own_graph_threads: false, runtimes };
        // Dropping the set ends all actors.
        actors.block_on(LocalSet::new().run_until(run(task, placement)));
        lists.shutdown_background();
        watches.shutdown_background();
    })?;
    Ok(())
}

/// A fatal failure on this thread ends the collector instead of the process.
fn report_failures(state: &watch::Sender<State>) {
    let state = state.clone();
    on_fatal(move |why| {
        let error = format!("{why}; start another collector, which reads the cluster again");
        state.send_if_modified(|state| {
            // The first failure is the cause of the others.
            let running = matches!(state, State::Running);
            if running {
                *state = State::Failed(Error::new(ErrorKind::Internal, error));
            }
            running
        });
    });
}

async fn run(task: Task, placement: Placement) {
    let Task { client, settings, state, started, stop } = task;
    let (controller, introspection) = match start(client, &settings, placement).await {
        Ok(started) => started,
        Err(error) => {
            // The caller has cancelled the start and receives no result.
            let _ = started.send(Err(error));
            return;
        }
    };
    if started.send(Ok(introspection)).is_err() {
        return;
    }
    let mut failed = state.subscribe();
    tokio::select! {
        grace = stop => {
            let finished = controller.stop(grace.unwrap_or_default()).await;
            state.send_replace(State::Stopped { finished });
        }
        _ = failed.wait_for(|state| matches!(state, State::Failed(_))) => {}
    }
}

async fn start(
    client: kube::Client,
    settings: &Settings,
    placement: Placement,
) -> Result<(Controller, CollectorIntrospection), Error> {
    let api = Api::from_clients(client, settings::api(settings), gate(settings));
    connect::check(&api, "the API server", settings).await?;
    // The exporter only forgets series of types that are gone, which is up to the application here.
    let (_, exporter) = Exporter::local();
    Controller::configured(api, settings, placement, Vec::new(), exporter)
}
