//! Builds a collector.

use std::fmt;

use tokio::sync::{oneshot, watch};

use super::Collector;
use super::thread::{self, State, Task};
use crate::app::error::{Error, ErrorKind};
use crate::app::threads::no_threads;
use crate::config::Settings;

/// Prepares a [`Collector`].
pub struct Builder {
    client: kube::Client,
    settings: Settings,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, settings: Settings::default() }
    }

    /// Replaces the default settings.
    ///
    /// The sections `http`, `tls` and `access` have no effect, and neither have `log.format`,
    /// `log.filter` and `graph.threads`: a collector inside an application has no listeners and no
    /// log of its own, and its graph is on one thread. `client.watch_protocol` and `client.compression` depend on
    /// the client. `leader.enabled` is an error.
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
        let Self { client, settings } = self;
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
        for warning in settings.warnings() {
            tracing::warn!("{warning}");
        }
        let grace = settings.shutdown.grace;
        let (state, state_receiver) = watch::channel(State::Running);
        let (stop, stop_receiver) = oneshot::channel();
        let (started, started_receiver) = oneshot::channel();
        let task = Task { client, settings, state, started, stop: stop_receiver };
        thread::spawn(task).map_err(no_threads)?;
        let introspection = started_receiver.await.map_err(|_| thread::ended())??;
        Ok(Collector { introspection, state: state_receiver, stop, grace })
    }
}
