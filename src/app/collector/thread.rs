//! The thread of a collector inside an application. It runs a collector as the process of `kube-gc run` does,
//! but what it does to its threads belongs to this collector alone.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use kube::client::Body;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tower::buffer::error::Closed;
use tower::service_fn;
use tracing::Span;

use crate::app::connect::{self, gate};
use crate::app::controller::Controller;
use crate::app::process::{Threads, block_on, with_files};
use crate::app::{Error, ErrorKind};
use crate::introspect::CollectorIntrospection;
use kube_gc_client::Api;
use kube_gc_config::{Settings, available_cores};
use kube_gc_controller::actors::{Placement, on_fatal};
use kube_gc_observe::telemetry::{Exporter, record};

/// The state of a collector.
#[derive(Clone, Debug)]
pub enum State {
    Running,
    /// It could not start, or a part that the others depend on has failed.
    Failed(Error),
    Stopped {
        /// Whether all requests finished within the grace period.
        finished: bool,
    },
}

/// How the API server is reached.
pub enum Access {
    Config(Box<kube::Config>),
    Client(kube::Client),
}

/// What the thread needs.
pub struct Task {
    pub access: Access,
    pub settings: Settings,
    pub state: Arc<watch::Sender<State>>,
    /// Receives the read models of a collector that runs, and a runtime whose clock nobody pauses.
    pub started: oneshot::Sender<(CollectorIntrospection, Handle)>,
    /// Receives the grace period. The collector stops at once when the sender is dropped.
    pub stop: oneshot::Receiver<Duration>,
}

/// Marks the threads of one collector.
#[derive(Clone)]
pub struct Mark {
    /// Runtimes keep it as long as somebody has their handles, which may be longer than the collector runs.
    pub state: Weak<watch::Sender<State>>,
    pub name: Option<Arc<str>>,
    pub span: Span,
}

impl Mark {
    fn all_of(&self, runtime: &mut Builder) {
        let (first, last) = (self.clone(), self.clone());
        runtime.on_thread_start(move || first.begin()).on_thread_stop(move || last.end());
    }

    /// A fatal failure on this thread ends the collector instead of the process.
    fn begin(&self) {
        let state = self.state.clone();
        on_fatal(move |why| {
            let error = internal(&format!("{why}; start another collector, which reads the cluster again"));
            state.upgrade().inspect(|state| fail(state, error));
        });
        record::of_collector(self.name.clone());
        self.span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
    }

    /// A subscriber may take a later thread for this one.
    fn end(&self) {
        self.span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
    }
}

/// The error of a collector whose thread has ended for no known reason.
pub fn ended() -> Error {
    internal("the collector has ended unexpectedly; start another one")
}

fn internal(why: &str) -> Error {
    Error::new(ErrorKind::Internal, why)
}

/// Starts the thread.
pub fn spawn(task: Task, mark: Mark) -> io::Result<()> {
    let run = move || {
        mark.begin();
        let state = Arc::clone(&task.state);
        let list_threads = task.settings.watch.list_thread_count(available_cores());
        let ran = block_on(list_threads, |builder| mark.all_of(builder), |threads| run(task, threads));
        if let Err(error) = ran.flatten() {
            fail(&state, error);
        }
        mark.end();
    };
    thread::Builder::new().name("kube-gc".to_owned()).spawn(run).map(drop)
}

/// The first failure is the cause of the others.
fn fail(state: &watch::Sender<State>, error: Error) {
    state.send_if_modified(|state| {
        let running = matches!(state, State::Running);
        if running {
            *state = State::Failed(error);
        }
        running
    });
}

/// Why a client can send nothing any more.
const NO_RUNTIME: &str = "the runtime on which the client was made has ended; give the collector a kube::Config \
    (Collector::builder), or make the client on a runtime that lasts";

/// The same client, whose end the collector notices.
fn noticed(client: kube::Client, state: Arc<watch::Sender<State>>) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: http::Request<Body>| {
        let (client, state) = (client.clone(), Arc::clone(&state));
        async move {
            let answer = client.send(request).await;
            if matches!(&answer, Err(kube::Error::Service(cause)) if cause.is::<Closed>()) {
                fail(&state, internal(NO_RUNTIME));
            }
            answer
        }
    });
    kube::Client::new(service, namespace)
}

/// Runs the collector until it is stopped or has failed.
async fn run(task: Task, Threads { lists, watches }: Threads) -> Result<(), Error> {
    let Task { access, settings, state, started, stop } = task;
    let api = match access {
        Access::Config(config) => with_files(connect::collector(*config, &settings)).await?.1,
        Access::Client(client) => {
            let client = noticed(client, Arc::clone(&state));
            let api = Api::from_clients(client, (&settings).into(), gate(&settings));
            with_files(connect::check(&api, "the API server", &settings)).await?;
            api
        }
    };
    // The exporter only forgets series of types that are gone, which is up to the application here.
    let (_, exporter) = Exporter::local();
    let placement = Placement { own_graph_threads: false, runtimes: Some((lists.clone(), watches)) };
    let (controller, introspection) =
        Controller::configured(api, &settings, placement, Vec::new(), exporter)?;
    // Who has given the start up has dropped the other end of `stop`, too. The actors must run to their end: actix
    // starts one that is dropped before it ran, outside of any runtime.
    let _ = started.send((introspection, lists));
    let mut failed = state.subscribe();
    let finished = tokio::select! {
        grace = stop => Some(controller.stop(grace.unwrap_or_default()).await),
        _ = failed.wait_for(|state| matches!(state, State::Failed(_))) => None,
    };
    record::zero_all();
    if let Some(finished) = finished {
        state.send_replace(State::Stopped { finished });
    }
    Ok(())
}

/// Holds a paused clock of tokio until the result is dropped. Such a clock jumps to the next timer as soon as its
/// runtime has nothing to do, unless a blocking task runs. tokio does not know that the caller waits for
/// other threads, so every timeout around the wait would end at once.
pub fn held_clock() -> Option<mpsc::Sender<Infallible>> {
    let runtime = Handle::try_current().ok()?;
    let (clock, start) = (tokio::time::Instant::now(), Instant::now());
    while start.elapsed().is_zero() {}
    let is_paused = clock == tokio::time::Instant::now();
    is_paused.then(|| {
        let (end, ended) = mpsc::channel();
        runtime.spawn_blocking(move || ended.recv());
        end
    })
}
