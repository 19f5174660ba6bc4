//! The process of a question, such as `kube-gc tree`: connects, asks, and ends early on a signal.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Error;
use super::connect::{self, rejected};
use super::process::{block_on, termination, unmarked};
use super::run::Target;
use crate::insight::{InsightError, Session, Waiting};
use kube_gc_client::{ApiSettings, WriteGate};
use kube_gc_config::Settings;
use kube_gc_core::object::Namespace;

/// What to do without the right to get an object.
const RIGHT: &str = "ask for the right to get this object, or use another context";

/// How a command reaches the cluster, and as whom.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Which cluster.
    pub target: Target,
    /// The time limit of a request.
    pub request_timeout: Option<Duration>,
    /// The namespace; `None` for that of the kubeconfig.
    pub namespace: Option<String>,
}

/// Connects, and asks. A signal ends the question early; then it answers with what it knows. Nothing can be
/// written.
///
/// # Errors
///
/// The API server cannot be used.
pub fn ask<A>(
    connection: &Connection,
    progress: fn(usize, usize),
    question: impl AsyncFnOnce(&Session) -> Result<A, InsightError>,
) -> Result<Result<A, InsightError>, Error> {
    let Connection { target, request_timeout, namespace } = connection;
    let defaults = Settings::default();
    let mut settings = ApiSettings::from(&defaults);
    settings.request_timeout = request_timeout.unwrap_or(settings.request_timeout);
    block_on(1, unmarked, |_| async {
        let config = connect::config(target).await?;
        let (connection, api) = connect::client(config, settings, WriteGate::dry_run()).await?;
        let config = connection.config();
        let server = connection.server();
        let namespace = Namespace::parse(namespace.as_ref().unwrap_or(&config.default_namespace));
        let interrupted = CancellationToken::new();
        let waiting = Waiting { progress, interrupted: interrupted.clone() };
        let session = Session::begin(api, defaults.discovery.ignored, namespace, waiting).await;
        let session = session.map_err(|error| rejected(&server, &error, RIGHT))?;
        let signals = termination()?;
        tokio::spawn(async move {
            signals.await;
            interrupted.cancel();
        });
        match question(&session).await {
            Err(InsightError::Api(error)) => Err(rejected(&server, &error, RIGHT)),
            answer => Ok(answer),
        }
    })?
}
