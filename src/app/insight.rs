//! The process of a question, such as `kube-gc tree`: connects, asks, and ends early on a signal.

use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::error::{Error, ErrorKind};
use super::run::Target;
use super::settings;
use super::signals::termination;
use super::threads::block_on;
use crate::api::{Api, ApiError, ConnectError, ErrorClass, WriteGate, load_config};
use crate::config::Settings;
use crate::insight::{InsightError, Session};
use kube_gc_core::object::Namespace;

/// How a command reaches the cluster, and as whom.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Which cluster.
    pub target: Target,
    /// The user to impersonate.
    pub user: Option<String>,
    /// The groups to impersonate.
    pub groups: Vec<String>,
    /// The time limit of a request.
    pub request_timeout: Option<Duration>,
    /// The namespace; `None` for that of the kubeconfig.
    pub namespace: Option<String>,
}

/// What a question is put to.
struct Begun {
    server: String,
    session: Session,
    /// A signal cancels it.
    interrupted: CancellationToken,
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
        // Boxed, and so compiled once and not for each question.
        let Begun { server, session, interrupted } = begin(connection).boxed_local().await?;
        match question(&session, interrupted).await {
            Err(InsightError::Api(error)) => Err(rejected(&server, &error)),
            answer => Ok(answer),
        }
    })?
}

async fn begin(connection: &Connection) -> Result<Begun, Error> {
    let (server, session) = connect(connection).await?;
    let interrupted = CancellationToken::new();
    let cancel = interrupted.clone();
    let signals = termination()?;
    tokio::spawn(async move {
        signals.await;
        cancel.cancel();
    });
    Ok(Begun { server, session, interrupted })
}

async fn connect(connection: &Connection) -> Result<(String, Session), Error> {
    let Connection { target, user, groups, request_timeout, namespace } = connection;
    let config = load_config(target.kubeconfig.as_deref(), target.context.as_deref()).await;
    let mut config = config.map_err(|error| Error::new(ErrorKind::Kubeconfig, error))?;
    if let Some(user) = user {
        config.auth_info.impersonate = Some(user.clone());
    }
    if !groups.is_empty() {
        config.auth_info.impersonate_groups = Some(groups.clone());
    }
    let server = config.cluster_url.to_string();
    let namespace = Namespace::parse(namespace.as_ref().unwrap_or(&config.default_namespace));
    let defaults = Settings::default();
    let mut settings = settings::api(&defaults);
    settings.request_timeout = request_timeout.unwrap_or(settings.request_timeout);
    let api = Api::connect(config, settings, WriteGate::dry_run()).map_err(|error| {
        let kind = match error {
            ConnectError::Config(_) => ErrorKind::Kubeconfig,
            ConnectError::Client { .. } => ErrorKind::Credentials,
        };
        Error::new(kind, error)
    })?;
    let session = Session::begin(api, defaults.discovery.ignored, namespace).await;
    match session {
        Ok(session) => Ok((server, session)),
        Err(InsightError::Api(error)) => Err(rejected(&server, &error)),
        Err(error) => Err(Error::new(ErrorKind::Internal, error)),
    }
}

/// Why the API server cannot be asked.
fn rejected(server: &str, error: &ApiError) -> Error {
    let (kind, hint) = match (error.class, error.code) {
        (_, Some(401)) | (ErrorClass::Denied, None) => {
            (ErrorKind::Credentials, "check the user in the kubeconfig and whether its token has expired")
        }
        (ErrorClass::Denied, Some(_)) => {
            (ErrorKind::Forbidden, "ask for the right to get this object, or use another context")
        }
        (_, None) if error.message.contains("certificate") => {
            (ErrorKind::Credentials, "check certificate-authority in the kubeconfig")
        }
        (_, Some(_) | None) => (ErrorKind::Unreachable, "check the address and that the server is running"),
    };
    Error::new(kind, format!("{server}: {error}; {hint}"))
}
