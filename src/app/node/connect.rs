//! Connects to the container runtime and to the API server, and says what is wrong.

use std::sync::Arc;

use crate::api::{Api, ApiError, Connection, ErrorClass, WriteGate};
use crate::app::error::{Error, ErrorKind};
use crate::app::run::Target;
use crate::app::{connect, settings};
use crate::config::{PodKnowledge, Settings};
use crate::node::{NodeError, NodeOptions, PodSource, Problem};
use crate::telemetry::record;

/// What to do without an API server.
const WITHOUT: &str = "or set `node.pods` to \"none\" to collect without an API server";

/// What is known before the container runtime is connected to.
pub struct Begun {
    /// How this node is collected.
    pub options: NodeOptions,
    /// Who knows its pods.
    pub pods: PodSource,
    /// How the API server is reached; nothing without one.
    pub connection: Option<Connection>,
}

impl Begun {
    /// Reads the kubeconfig and finds the socket. Sends nothing yet.
    pub async fn new(target: &Target, settings: &Settings, free: Option<u8>) -> Result<Self, Error> {
        let options = NodeOptions::new(settings, free);
        let options = options.map_err(|error| node_error(&error))?;
        let (pods, connection) = match settings.node.pods {
            PodKnowledge::None => (PodSource::None, None),
            PodKnowledge::Api => {
                let (connection, api) = api(target, settings).await?;
                (PodSource::Api { api, node: options.name.clone() }, Some(connection))
            }
        };
        Ok(Self { options, pods, connection })
    }

    /// The same for passes that repeat.
    pub fn watched(self) -> Self {
        Self { pods: self.pods.watched(), ..self }
    }

    /// The API server in messages.
    pub fn server(&self) -> String {
        self.connection
            .as_ref()
            .map(|connection| connection.config().cluster_url.to_string())
            .unwrap_or_default()
    }
}

/// The client of the API server. Sends nothing yet.
async fn api(target: &Target, all: &Settings) -> Result<(Connection, Api), Error> {
    let gate = if all.dry_run { WriteGate::dry_run() } else { WriteGate::open() };
    let connected = connect::client(target, settings::api(all), gate).await;
    connected.map_err(|error| Error::new(error.kind(), format!("{error}; {WITHOUT}")))
}

/// The settings of the client of the container runtime: each call is counted.
pub fn client_settings() -> kube_gc_cri::Settings {
    let observer = |operation: &kube_gc_cri::client::Operation<'_>| {
        record::runtime_operation(operation.rpc.operation(), operation.outcome.is_err(), operation.elapsed);
    };
    kube_gc_cri::Settings { observer: Some(Arc::new(observer)), ..kube_gc_cri::Settings::default() }
}

/// Why the container runtime cannot be used.
pub fn node_error(error: &NodeError) -> Error {
    let (kind, hint) = match error.problem() {
        Problem::Settings => (ErrorKind::Settings, " (--runtime-endpoint, `node.runtime_endpoint`)"),
        Problem::Unreachable => (ErrorKind::Unreachable, " (--runtime-endpoint, `node.runtime_endpoint`)"),
        Problem::Forbidden => (ErrorKind::Forbidden, ""),
        Problem::Other => (ErrorKind::Internal, ""),
    };
    Error::new(kind, format!("{error}{hint}"))
}

/// Why the API server does not tell the pods of this node.
pub fn rejected(server: &str, error: &ApiError) -> Error {
    let (kind, hint) = match (error.class, error.code) {
        (_, Some(401)) | (ErrorClass::Denied, None) => {
            (ErrorKind::Credentials, "check the user in the kubeconfig and whether its token has expired")
        }
        (ErrorClass::Denied, Some(_)) => (ErrorKind::Forbidden, "allow this user to get and list pods"),
        (_, None) if error.message.contains("certificate") => {
            (ErrorKind::Credentials, "check certificate-authority in the kubeconfig")
        }
        (_, Some(_) | None) => (ErrorKind::Unreachable, "check the address and that the server is running"),
    };
    let message = format!("the pods of this node are not known: {server}: {error}; {hint}, {WITHOUT}");
    Error::new(kind, message)
}
