//! The public collector: one that runs inside the process of an application.
//!
//! It changes nothing that is global to the process: it installs no log, no metrics recorder and no
//! signal handler, it opens no listener, and a failure of one of its parts ends only the collector.

mod thread;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::thread::{Access, Mark, State, Task, held_clock};
use super::connect::place;
use super::process::{no_threads, with_files};
use super::{Error, ErrorKind};
use crate::introspect::queries::namespace_named;
use crate::introspect::{CollectorIntrospection, IdleQuery, IdleReport, MonitorStatus, QueueCounts};
use kube_gc_config::Settings;
use kube_gc_core::object::{GroupResource, ResourceVersion, Uid};
use kube_gc_observe::readiness::{Check, Outcome};
use kube_gc_observe::telemetry::Escaped;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A garbage collector that runs in this process.
///
/// The collector has threads of its own. It can be used from any runtime, and from several one after the other,
/// such as those of `#[tokio::test]`. A paused clock of tokio stands still while somebody waits for it. It
/// stops when it is dropped; [`stop`](Self::stop) also waits for requests under way. It logs with
/// [`tracing`] and records metrics with [`metrics`](https://docs.rs/metrics), so the application
/// decides where they go.
///
/// # Example
///
/// The crate `kube-gc-apiserver` is an API server for tests. On a cluster, the configuration is
/// that of [`kube::Config::infer`].
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{Api, DeleteParams, PostParams};
/// use kube::core::ObjectMeta;
/// use kube::ResourceExt;
/// use kube_gc::Collector;
/// use kube_gc_apiserver::{ApiServer, Scheme, Settings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::new(Settings::default());
/// let config_maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
/// let serving = server.serve(([127, 0, 0, 1], 0).into(), Scheme::Http).await?;
/// let collector = Collector::builder(kube::Config::new(serving.url().parse()?)).start().await?;
///
/// let owner = ConfigMap {
///     metadata: ObjectMeta { name: Some("owner".to_owned()), ..Default::default() },
///     ..Default::default()
/// };
/// let owner = config_maps.create(&PostParams::default(), &owner).await?;
///
/// // The answer to a foreground deletion has the version at which the deletion began.
/// let deleted = config_maps.delete("owner", &DeleteParams::foreground()).await?.left();
/// let version = deleted.and_then(|object| object.resource_version()).unwrap_or_default();
/// collector.wait_seen("configmaps", &version).await?;
/// collector.wait_idle().await?;
/// assert!(config_maps.get_opt(&owner.name_any()).await?.is_none());
///
/// collector.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Collector {
    introspection: CollectorIntrospection,
    state: watch::Receiver<State>,
    /// One of its own runtimes, whose clock nobody pauses.
    runtime: Handle,
    /// Dropping it without sending a grace period stops the collector at once.
    stop: oneshot::Sender<Duration>,
    grace: Duration,
}

impl Collector {
    /// Prepares a collector for the API server of this configuration, to which it connects as `kube-gc run` does.
    /// The user needs the permissions of the role in `deploy/base/rbac.yaml`.
    #[must_use]
    pub fn builder(config: kube::Config) -> Builder {
        Builder::new(Some(place(&config.cluster_url)), Access::Config(Box::new(config)))
    }

    /// Prepares a collector that needs the runtime on which this client was made: a test that blocks its thread
    /// stops the collector, and after its end the collector has failed. Prefer [`builder`](Self::builder).
    ///
    /// The client should not retry requests by itself (see `default_retry` in [`kube::Config`]), because the
    /// collector does. HTTP/2, keepalive and pings are up to it: without them, each watch has a connection, and
    /// a dead one is noticed only when the time of the watch is over.
    #[must_use]
    pub fn builder_with_client(client: kube::Client) -> Builder {
        Builder::new(None, Access::Client(client))
    }

    /// Waits until the collector has nothing left to do.
    ///
    /// "Nothing" refers to what the collector has seen so far. An event may still be on its way to
    /// it, so after a write of your own, call [`wait_seen`](Self::wait_seen) first. Objects that
    /// wait for something outside of the collector, for example for the CRD of an owner, do not
    /// count.
    ///
    /// # Errors
    /// The collector has failed, or this process is at its limit of open files. A server that is gone is none,
    /// because it may come back: after a timeout of yours, [`Status::problems`] says what is wrong.
    pub async fn wait_idle(&self) -> Result<(), Error> {
        self.wait(IdleQuery::default(), |report| report.idle).await
    }

    /// Like [`wait_idle`](Self::wait_idle), for the objects of one namespace, whatever happens to
    /// others. Tests that share an API server have a namespace each. Work on objects without a namespace
    /// counts, too, because they may have dependents in any. Discovery of types that nobody waits for
    /// ([`wait_seen`](Self::wait_seen)) does not.
    ///
    /// # Errors
    /// That is no name of a namespace, or the collector has failed.
    pub async fn wait_idle_in(&self, namespace: &str) -> Result<(), Error> {
        let namespace = namespace_named(namespace).map_err(|why| Error::new(ErrorKind::Argument, why))?;
        let query = IdleQuery { namespace: Some(namespace), ..IdleQuery::default() };
        self.wait(query, |report| report.idle).await
    }

    /// Like [`wait_idle`](Self::wait_idle), for the object with this uid, even if it is gone, and all
    /// that it owned, directly or not, whatever happens to others.
    ///
    /// # Errors
    /// That is no uid, or the collector has failed.
    pub async fn wait_idle_below(&self, owner: &str) -> Result<(), Error> {
        let empty = || Error::new(ErrorKind::Argument, "the uid is empty; pass metadata.uid of the owner");
        let owner = Some(Uid::parse(owner).ok_or_else(empty)?);
        self.wait(IdleQuery { owner, ..IdleQuery::default() }, |report| report.idle).await
    }

    /// Waits until the collector has seen this version of this resource type, such as `configmaps`
    /// or `deployments.apps`, where the group may be left out if no other type has this plural.
    /// Versions are in the metadata of objects that the API server returns.
    ///
    /// # Errors
    /// The version is not a whole number above 0, so no version is known to be later, the API server
    /// serves no such type, several types have this plural, the collector ignores the type
    /// (`discovery.ignored`), or the collector has failed.
    pub async fn wait_seen(&self, resource: &str, version: &str) -> Result<(), Error> {
        let Some(version) = ResourceVersion::parse_number(version) else {
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "the version {version:?} is not a whole number above 0; pass metadata.resourceVersion of an object"
                ),
            ));
        };
        let seen = vec![(GroupResource::parse(resource), version)];
        self.wait(IdleQuery { seen, ..IdleQuery::default() }, |report| report.not_seen.is_empty()).await
    }

    /// What the collector watches, and how much work is waiting.
    ///
    /// # Errors
    /// The collector has failed.
    pub async fn status(&self) -> Result<Status, Error> {
        let _held = held_clock();
        let readiness = self.introspection.readiness();
        let problems = readiness.checks.iter().filter(|check| check.outcome != Outcome::Fine);
        let problems = problems.map(|Check { name, message, .. }| format!("{name}: {message}"));
        let status = Status {
            ready: readiness.ready(),
            problems: problems.map(|text| Escaped(text).to_string()).collect(),
            resources: self.introspection.monitors().into_iter().map(Into::into).collect(),
            queues: self.introspection.queues().await.into_iter().map(Into::into).collect(),
        };
        // A collector that fails meanwhile answers only in part.
        self.check()?;
        Ok(status)
    }

    /// Stops the collector. Requests under way may finish within the grace period of the settings
    /// (`shutdown.grace`).
    ///
    /// # Errors
    /// The collector had failed before, or requests were still under way after the grace period.
    pub async fn stop(self) -> Result<(), Error> {
        let Self { stop, grace, state, .. } = self;
        let _held = held_clock();
        // A collector that has failed does not receive it.
        let _ = stop.send(grace);
        if end(state).await? {
            return Ok(());
        }
        let why = format!(
            "requests were still in progress {grace:?} after the stop; raise shutdown.grace if they need longer"
        );
        Err(Error::new(ErrorKind::Internal, why))
    }

    async fn wait(&self, query: IdleQuery, is_met: fn(&IdleReport) -> bool) -> Result<(), Error> {
        let _held = held_clock();
        let (introspection, query) = (self.introspection.clone(), IdleQuery { parked_ok: true, ..query });
        let met = async move {
            loop {
                match introspection.idle(query.clone()).await {
                    report if is_met(&report) => return Ok(()),
                    IdleReport { unknown: Some(why), .. } => {
                        return Err(Error::new(ErrorKind::Argument, why));
                    }
                    _ => sleep(POLL_INTERVAL).await,
                }
            }
        };
        // The clock is that of the runtime on which timers are made. A task is cancelled if the runtime has ended.
        let mut tasks = JoinSet::new();
        tasks.spawn_on(with_files(met), &self.runtime);
        tokio::select! {
            Some(Ok(met)) = tasks.join_next() => self.check().and(met),
            ended = end(self.state.clone()) => Err(ended.err().unwrap_or_else(thread::ended)),
        }
    }

    /// Fails if the collector has.
    fn check(&self) -> Result<(), Error> {
        if let State::Failed(error) = &*self.state.borrow() {
            return Err(error.clone());
        }
        // If the state can no longer change, the thread has ended without reporting why.
        self.state.has_changed().map(|_| ()).map_err(|_| thread::ended())
    }
}

/// Waits until a collector has ended. Returns whether all requests had finished.
async fn end(mut state: watch::Receiver<State>) -> Result<bool, Error> {
    match state.wait_for(|state| !matches!(state, State::Running)).await.as_deref() {
        Ok(State::Stopped { finished }) => Ok(*finished),
        Ok(State::Failed(error)) => Err(error.clone()),
        Ok(State::Running) | Err(_) => Err(thread::ended()),
    }
}

/// Prepares a [`Collector`].
pub struct Builder {
    /// The name of the API server in the log, if it is known.
    server: Option<String>,
    access: Access,
    name: Option<Arc<str>>,
    settings: Settings,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Builder {
    fn new(server: Option<String>, access: Access) -> Self {
        Self { server, access, name: None, settings: Settings::default() }
    }

    /// Names the collector. If a process has several without names, their gauges overwrite each other: only the
    /// metrics of one with a name have the label `collector`. Log lines are in a span `collector` with
    /// `name` and `server`.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Replaces the default settings.
    ///
    /// The sections `http`, `tls` and `access` have no effect, and neither have `log.format`,
    /// `log.filter` and `graph.threads`: a collector inside an application has no listeners and no
    /// log of its own, and its graph is on one thread. With a client, `client.watch_protocol` and
    /// `client.compression` have none either; the latter needs the feature `gzip`. `leader.enabled` is an error.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Connects, and starts the collector. It may take a moment until it has read the cluster and
    /// its workers start; [`Collector::wait_idle`] waits for that, too.
    ///
    /// # Errors
    /// A setting is out of bounds, the API server does not answer or rejects the client, or the
    /// operating system provides no thread. [`Error::kind`] tells them apart.
    pub async fn start(self) -> Result<Collector, Error> {
        let Self { server, access, name, settings } = self;
        let _held = held_clock();
        if let Some(violation) = settings.violation() {
            return Err(Error::new(ErrorKind::Settings, violation));
        }
        if settings.leader.enabled {
            return Err(Error::new(
                ErrorKind::Settings,
                "`leader.enabled` is only for `kube-gc run`, whose client enforces the lease for each write; elect \
                 a leader in the application, and start the collector only there",
            ));
        }
        let span = tracing::error_span!("collector", name = name.as_deref(), server);
        for warning in settings.warnings() {
            span.in_scope(|| tracing::warn!("{warning}"));
        }
        let grace = settings.shutdown.grace;
        let (state, state_receiver) = watch::channel(State::Running);
        let state = Arc::new(state);
        let (stop, stop_receiver) = oneshot::channel();
        let (started, started_receiver) = oneshot::channel();
        let mark = Mark { state: Arc::downgrade(&state), name, span };
        let task = Task { access, settings, state, started, stop: stop_receiver };
        thread::spawn(task, mark).map_err(no_threads)?;
        let Ok((introspection, runtime)) = started_receiver.await else {
            return Err(end(state_receiver).await.err().unwrap_or_else(thread::ended));
        };
        Ok(Collector { introspection, state: state_receiver, runtime, stop, grace })
    }
}

/// What a collector watches, and how much work is waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Whether API discovery has succeeded and the workers have started.
    pub ready: bool,
    /// What a person should look at, such as a server that is gone or rejects the credentials. It is the likely
    /// reason why a wait does not end.
    pub problems: Vec<String>,
    /// The watched resource types.
    pub resources: Vec<ResourceStatus>,
    /// The work queues.
    pub queues: Vec<QueueStatus>,
}

/// A watched resource type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceStatus {
    /// Resource and group, such as `configmaps` or `deployments.apps`.
    pub resource: String,
    /// The API version that is watched.
    pub version: String,
    /// Whether the list and all events since then are in the graph.
    pub synced: bool,
    /// The last error since the type was synced, in the server's words.
    pub last_error: Option<String>,
}

/// The number of objects in a work queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStatus {
    /// The name, as in the label `name` of the workqueue metrics.
    pub name: String,
    /// Wait for a worker.
    pub ready: usize,
    /// Are being processed.
    pub processing: usize,
    /// Have failed and wait for their next attempt.
    pub delayed: usize,
    /// Wait for something outside of the collector, for example for the CRD of an owner.
    pub parked: usize,
    /// The last error of one of those that failed.
    pub last_error: Option<String>,
}

impl From<MonitorStatus> for ResourceStatus {
    fn from(monitor: MonitorStatus) -> Self {
        let resource = monitor.group_resource().to_string();
        let MonitorStatus { version, synced, last_error, .. } = monitor;
        Self { resource, version, synced, last_error }
    }
}

impl From<crate::introspect::QueueStatus> for QueueStatus {
    fn from(queue: crate::introspect::QueueStatus) -> Self {
        let crate::introspect::QueueStatus { name, now, failing, .. } = queue;
        let last_error = failing.into_iter().next().map(|failing| failing.last_error);
        let QueueCounts { ready, processing, delayed, parked } = now.counts;
        Self { name, ready, processing, delayed, parked, last_error }
    }
}

#[cfg(test)]
mod tests;
