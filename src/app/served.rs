//! A collector and its two listeners, as `run` and `demo` have it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::controller::Controller;
use super::error::{Error, ErrorKind};
use super::protection::Protections;
use super::settings;
use super::threads::{Threads, no_threads};
use crate::actors::{GraphThreads, Placement};
use crate::api::Api;
use crate::config::{Settings, available_cores};
use crate::http::{Introspection, Listener, bind, debug_router, health_router};
use crate::introspect::{CollectorIntrospection, DecisionLog};
use crate::leader::LeaseAnnotations;
use crate::telemetry::Exporter;
use crate::worker::DecisionObserver;

/// A running collector and its pages.
pub struct ServedCollector {
    controller: Controller,
    /// What the demo wants to know.
    #[cfg(feature = "demo")]
    introspection: Arc<dyn Introspection>,
    health: SocketAddr,
    debug: SocketAddr,
    serving: TaskTracker,
    closing: CancellationToken,
}

impl ServedCollector {
    /// Binds both addresses and starts the actors on the current thread. Pages, lists and watches
    /// are on the other threads.
    ///
    /// # Errors
    /// An address cannot be bound, or the operating system provides no thread.
    pub async fn start(
        api: Api,
        settings: &Settings,
        threads: &Threads,
        exporter: Exporter,
        mut decisions: Vec<Arc<dyn DecisionObserver>>,
        protections: Protections,
    ) -> Result<Self, Error> {
        let decision_log = DecisionLog::new(settings.debug.decisions);
        decisions.push(Arc::new(decision_log.clone()));
        let health = bind(Listener::Health, settings.http.listen).await;
        let health = health.map_err(|error| Error::new(ErrorKind::Address, error))?;
        let debug = bind(Listener::Debug, settings.http.debug_listen).await;
        let debug = debug.map_err(|error| Error::new(ErrorKind::Address, error))?;
        let addresses = (health.address(), debug.address());

        let placement = Placement::OwnThreads {
            graph: if settings.graph.has_own_threads(available_cores()) {
                GraphThreads::Each
            } else {
                GraphThreads::Callers
            },
            lists: threads.lists.clone(),
            watches: threads.watches.clone(),
        };
        let controller_settings = settings::controller(settings, placement, decisions);
        let controller =
            Controller::start(api.clone(), controller_settings, exporter.clone()).map_err(no_threads)?;
        let introspected = CollectorIntrospection::new(
            controller.status().clone(),
            api,
            decision_log,
            exporter.clone(),
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
        // Outside the tracker, whose end means that no page is served any more.
        protections.certificates.map(|certificates| tokio::spawn(certificates.keep(closing.clone())));
        Ok(Self {
            controller,
            #[cfg(feature = "demo")]
            introspection,
            health: addresses.0,
            debug: addresses.1,
            serving,
            closing,
        })
    }

    /// The address of health and metrics.
    pub const fn health(&self) -> SocketAddr {
        self.health
    }

    /// The address of the debug pages.
    pub const fn debug(&self) -> SocketAddr {
        self.debug
    }

    /// The read models behind the pages.
    #[cfg(feature = "demo")]
    pub fn introspection(&self) -> &dyn Introspection {
        &*self.introspection
    }

    /// Resolves when the graph is synced as far as possible and the workers start.
    pub fn collects(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.controller.status().collects()
    }

    /// The annotations that the brake keeps on the Lease, which all replicas share.
    pub fn lease_annotations(&self) -> Arc<dyn LeaseAnnotations> {
        Arc::new(self.controller.status().brake().clone())
    }

    /// Resolves when both listeners end without having been stopped.
    pub async fn fails(&self) -> Error {
        self.serving.wait().await;
        Error::new(ErrorKind::Internal, "the HTTP servers ended unexpectedly")
    }

    /// Stops it. Returns whether all work under way finished within the grace period.
    pub async fn stop(self, grace: Duration) -> bool {
        let finished = self.controller.stop(grace).await;
        self.closing.cancel();
        self.serving.wait().await;
        finished
    }
}
