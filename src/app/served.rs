//! A collector and its two listeners, as `run` and `demo` have it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connect::place;
use super::controller::Controller;
use super::process::Threads;
use super::{Error, ErrorKind};
#[cfg(feature = "demo")]
use crate::introspect::CollectorIntrospection;
use crate::introspect::debug_router;
use kube_gc_client::{Api, Connection, Reviews};
use kube_gc_config::{Listeners, Settings, available_cores};
use kube_gc_controller::actors::Placement;
use kube_gc_controller::worker::DecisionObserver;
use kube_gc_observe::access::Authorizer;
use kube_gc_observe::http::{
    Certificates, Hosts, Listener, Listening, Protection, TlsFiles, bind, health_router,
};
use kube_gc_observe::telemetry::Exporter;

/// The timeout of a token or access review. A scrape usually times out after ten seconds.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);

/// Loads the certificate, if a listener needs one.
///
/// # Errors
/// The files cannot be used.
pub fn certificates(settings: &Settings) -> Result<Option<Arc<Certificates>>, Error> {
    if settings.tls.listeners == Listeners::None {
        return Ok(None);
    }
    let files = TlsFiles { certificate: settings.tls.certificate.clone(), key: settings.tls.key.clone() };
    match Certificates::load(files) {
        Ok(certificates) => Ok(Some(Arc::new(certificates))),
        Err(error) => Err(Error::new(ErrorKind::Settings, error)),
    }
}

/// Both listeners, bound and not served yet.
pub struct Bound {
    health: Listening,
    debug: Listening,
    /// The certificate, which has to be reloaded when its files change.
    certificates: Option<Arc<Certificates>>,
    /// The API server, as the page names it.
    server: Option<String>,
}

impl Bound {
    /// Binds both addresses, with TLS and authorization as the settings ask for. Node collection may
    /// have no API server.
    ///
    /// # Errors
    /// An address cannot be bound, or nobody can review tokens and access.
    pub async fn new(
        settings: &Settings,
        certificates: Option<Arc<Certificates>>,
        connection: Option<&Connection>,
    ) -> Result<Self, Error> {
        let authorizer = match (settings.access.listeners, connection) {
            (Listeners::None, _) => None,
            (_, Some(connection)) => {
                let limit = REVIEW_TIMEOUT.min(settings.client.request_timeout);
                let reviews = Reviews::connect(connection, limit);
                let reviews = reviews.map_err(|error| Error::new(ErrorKind::Credentials, error))?;
                Some(Arc::new(Authorizer::new(reviews)))
            }
            (_, None) => {
                return Err(Error::new(
                    ErrorKind::Settings,
                    "`access.listeners` needs the API server, and `node.pods` is \"none\"; set one of them otherwise",
                ));
            }
        };
        let bound = async |listener, address| {
            let protection = Protection {
                certificates: certificates.clone().filter(|_| settings.tls.listeners.include(listener)),
                authorizer: authorizer.clone().filter(|_| settings.access.listeners.include(listener)),
                hosts: Hosts::new(&settings.http.hosts),
            };
            bind(listener, address, protection).await.map_err(|error| Error::new(ErrorKind::Address, error))
        };
        Ok(Self {
            health: bound(Listener::Health, settings.http.listen).await?,
            debug: bound(Listener::Debug, settings.http.debug_listen).await?,
            certificates,
            server: connection.map(|connection| place(&connection.config().cluster_url)),
        })
    }

    /// Serves these pages on a runtime.
    pub fn serve(self, health: Router, debug: Router, on: &Handle) -> Serving {
        let addresses = (self.health.address(), self.debug.address());
        let (listeners, closing) = (TaskTracker::new(), CancellationToken::new());
        listeners.spawn_on(self.health.serve(health, closing.clone()), on);
        listeners.spawn_on(self.debug.serve(debug, closing.clone()), on);
        listeners.close();
        // Outside the tracker, whose end means that no page is served any more.
        self.certificates.map(|certificates| tokio::spawn(certificates.keep(closing.clone())));
        Serving { health: addresses.0, debug: addresses.1, listeners, closing }
    }
}

/// Both listeners, while they are served.
pub struct Serving {
    /// The address of health and metrics.
    pub health: SocketAddr,
    /// The address of the debug pages.
    pub debug: SocketAddr,
    listeners: TaskTracker,
    closing: CancellationToken,
}

impl Serving {
    /// Resolves when both listeners end without having been stopped.
    pub async fn fails(&self) -> Error {
        self.listeners.wait().await;
        Error::new(ErrorKind::Internal, "the HTTP servers ended unexpectedly")
    }

    /// Stops them.
    pub async fn stop(self) {
        self.closing.cancel();
        self.listeners.wait().await;
    }
}

/// A running collector and its pages.
pub struct ServedCollector {
    /// Its actors.
    pub controller: Controller,
    /// The read models behind the pages.
    #[cfg(feature = "demo")]
    pub introspection: CollectorIntrospection,
    /// Its pages.
    pub serving: Serving,
}

impl ServedCollector {
    /// Starts the actors on the current thread. Pages, lists and watches are on the other threads.
    ///
    /// # Errors
    /// The operating system provides no thread.
    pub fn start(
        api: Api,
        settings: &Settings,
        threads: &Threads,
        exporter: Exporter,
        decisions: Vec<Arc<dyn DecisionObserver>>,
        listeners: Bound,
    ) -> Result<Self, Error> {
        let placement = Placement {
            own_graph_threads: settings.graph.has_own_threads(available_cores()),
            runtimes: Some((threads.lists.clone(), threads.watches.clone())),
        };
        let (controller, mut introspection) =
            Controller::configured(api, settings, placement, decisions, exporter.clone())?;
        introspection.server.clone_from(&listeners.server);
        let asked = introspection.clone();
        let health = health_router(move || asked.readiness(), exporter);
        let serving = listeners.serve(health, debug_router(introspection.clone()), &threads.lists);
        Ok(Self {
            controller,
            #[cfg(feature = "demo")]
            introspection,
            serving,
        })
    }

    /// Stops it. Returns whether all work under way finished within the grace period.
    pub async fn stop(self, grace: Duration) -> bool {
        let finished = self.controller.stop(grace).await;
        self.serving.stop().await;
        finished
    }
}
