//! A collector with its two listeners, as `run` and `demo` have it.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::Failure;
use super::request_metrics::RequestMetrics;
use super::serving::Protections;
use crate::actors::{Controller, ControllerSettings, DiscoverySettings, GraphThreads, Placement};
use crate::api::{Api, ApiSettings, Encoding, WatchProtocol, WatchSettings};
use crate::cli::Exit;
use crate::cli::system::Threads;
use crate::config::{self, Settings};
use crate::http::{Introspection, Listener, bind, debug_router, health_router};
use crate::introspect::{CollectorIntrospection, DecisionLog};
use crate::leader::LeaseAnnotations;
use crate::telemetry::Exporter;
use crate::worker::{DecisionObserver, ORPHAN_PAGE};
use kube_gc_core::brake::Limits;
use kube_gc_core::mailbox::Backoff;
use kube_gc_core::object::HashSeed;

/// A running collector whose pages are served.
pub struct Collector {
    controller: Controller,
    introspection: Arc<dyn Introspection>,
    serving: TaskTracker,
    closing: CancellationToken,
    health: SocketAddr,
    debug: SocketAddr,
}

impl Collector {
    /// Listens, and starts to collect. Its pages are served, and lists and watches read, on
    /// the other threads.
    ///
    /// # Errors
    /// When an address cannot be had, or a thread.
    pub async fn start(
        api: Api,
        settings: &Settings,
        threads: &Threads,
        exporter: Exporter,
        mut decisions: Vec<Arc<dyn DecisionObserver>>,
        protections: Protections,
    ) -> Result<Self, Failure> {
        let decision_log = DecisionLog::new(settings.debug.decisions);
        decisions.push(Arc::new(decision_log.clone()));
        let health = bind(Listener::Health, settings.http.listen).await;
        let health = health.map_err(|error| Failure::new(Exit::Address, error))?;
        let debug = bind(Listener::Debug, settings.http.debug_listen).await;
        let debug = debug.map_err(|error| Failure::new(Exit::Address, error))?;
        let addresses = (health.address(), debug.address());

        let controller =
            Controller::start(api, controller_settings(settings, threads, decisions), exporter.clone())
                .map_err(|error| Failure::new(Exit::Failure, format!("no thread for the graph: {error}")))?;
        let introspected = CollectorIntrospection::new(
            controller.status().clone(),
            decision_log,
            settings.ignored_type_warnings(),
        );
        let introspection: Arc<dyn Introspection> = Arc::new(introspected);
        let (serving, closing) = (TaskTracker::new(), CancellationToken::new());
        let (health, debug) = (health.protected(protections.health), debug.protected(protections.debug));
        let pages = health_router(Arc::clone(&introspection), exporter);
        serving.spawn_on(health.serve(pages, closing.clone()), &threads.lists);
        let pages = debug_router(Arc::clone(&introspection));
        serving.spawn_on(debug.serve(pages, closing.clone()), &threads.lists);
        serving.close();
        // Not one of the servers, by whose end it is known that none is left.
        protections.certificates.map(|certificates| tokio::spawn(certificates.keep(closing.clone())));
        let (health, debug) = addresses;
        Ok(Self { controller, introspection, serving, closing, health, debug })
    }

    /// Where health and metrics are.
    pub const fn health(&self) -> SocketAddr {
        self.health
    }

    /// Where the debug pages are.
    pub const fn debug(&self) -> SocketAddr {
        self.debug
    }

    /// What can be asked of it.
    pub fn introspection(&self) -> &dyn Introspection {
        &*self.introspection
    }

    /// Resolves when it knows what is in the cluster, as far as that can be known, and
    /// its workers may begin.
    pub fn collects(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.controller.status().collects()
    }

    /// What is to be written on the Lease of a group of replicas.
    pub fn brake(&self) -> Arc<dyn LeaseAnnotations> {
        Arc::new(self.controller.status().brake().clone())
    }

    /// Resolves when the pages are no longer served, which nobody has asked for.
    pub async fn fails(&self) -> Failure {
        self.serving.wait().await;
        Failure::new(Exit::Failure, "the HTTP servers ended unexpectedly")
    }

    /// Ends it; true when all that was being worked on had finished in time.
    pub async fn stop(self, grace: Duration) -> bool {
        let finished = self.controller.stop(grace).await;
        self.closing.cancel();
        self.serving.wait().await;
        finished
    }
}

/// What the settings mean for requests.
pub fn api_settings(settings: &Settings) -> ApiSettings {
    ApiSettings {
        request_timeout: settings.client.request_timeout,
        page_size: settings.watch.page_size,
        encoding: match settings.client.encoding {
            config::Encoding::Protobuf => Encoding::Protobuf,
            config::Encoding::Json => Encoding::Json,
        },
        compressed_lists: settings.client.compression,
        watch_protocol: match settings.client.watch_protocol {
            config::WatchProtocol::Http2 => WatchProtocol::Http2,
            config::WatchProtocol::Http1 => WatchProtocol::Http1,
        },
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

fn controller_settings(
    settings: &Settings,
    threads: &Threads,
    decisions: Vec<Arc<dyn DecisionObserver>>,
) -> ControllerSettings {
    let cores = config::available_cores();
    let partitions = u16::try_from(settings.graph.partition_count(cores)).ok().and_then(NonZeroU16::new);
    ControllerSettings {
        delete_workers: settings.workers.delete,
        orphan_workers: settings.workers.orphan,
        releases: settings.workers.release,
        orphan_page: ORPHAN_PAGE,
        partitions: partitions.unwrap_or(NonZeroU16::MIN),
        placement: Placement::OwnThreads {
            graph: if settings.graph.has_own_threads(cores) {
                GraphThreads::Each
            } else {
                GraphThreads::Callers
            },
            lists: threads.lists.clone(),
            watches: threads.watches.clone(),
        },
        absent_owners: settings.graph.absent_owner_capacity,
        backoff: Backoff { min: settings.retry.min, max: settings.retry.max },
        discovery: DiscoverySettings {
            interval: settings.discovery.interval,
            ignored: settings.discovery.ignored.clone(),
        },
        sync_timeout: settings.startup.sync_timeout,
        decisions,
        compare_after: settings.comparison.grace,
        // A dry run deletes nothing.
        brake: if settings.dry_run { Limits::default() } else { settings.brake.limits() },
        // The standard library's keys are from the system's randomness.
        hash_seed: HashSeed::new(RandomState::new().hash_one(0)),
    }
}
