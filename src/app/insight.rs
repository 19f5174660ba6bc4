//! The process of a question, such as `kube-gc tree`: connects, asks, and ends early on a signal.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connect::{self, rejected};
use super::process::{block_on, termination};
use super::run::Target;
use super::{Error, ErrorKind, settings};
use crate::insight::{InsightError, Session};
use kube_gc_client::WriteGate;
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

/// Connects, and asks. The question gets a token that a signal cancels; then it answers with what
/// it knows. Nothing can be written.
///
/// # Errors
///
/// The API server cannot be used.
pub fn ask<A>(
    connection: &Connection,
    question: impl AsyncFnOnce(&Session, CancellationToken) -> Result<A, InsightError>,
) -> Result<Result<A, InsightError>, Error> {
    block_on(1, |_| async {
        let (server, session) = session(connection).await?;
        let interrupted = CancellationToken::new();
        let (cancel, signals) = (interrupted.clone(), termination()?);
        tokio::spawn(async move {
            signals.await;
            cancel.cancel();
        });
        match question(&session, interrupted).await {
            Err(InsightError::Api(error)) => Err(rejected(&server, &error, RIGHT)),
            answer => Ok(answer),
        }
    })?
}

async fn session(connection: &Connection) -> Result<(String, Session), Error> {
    let Connection { target, request_timeout, namespace } = connection;
    let defaults = Settings::default();
    let mut settings = settings::api(&defaults);
    settings.request_timeout = request_timeout.unwrap_or(settings.request_timeout);
    let (connection, api) = connect::client(target, settings, WriteGate::dry_run()).await?;
    let config = connection.config();
    let server = config.cluster_url.to_string();
    let namespace = Namespace::parse(namespace.as_ref().unwrap_or(&config.default_namespace));
    let session = Session::begin(api, defaults.discovery.ignored, namespace).await;
    match session {
        Ok(session) => Ok((server, session)),
        Err(InsightError::Api(error)) => Err(rejected(&server, &error, RIGHT)),
        Err(error) => Err(Error::new(ErrorKind::Internal, error)),
    }
}
