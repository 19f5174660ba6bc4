//! Finds the API server and connects to it.

use std::path::{Path, PathBuf};

use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::BoxError;

use super::call::{Call, discovery_resource};
use super::client::{Api, Clients};
use super::error::{ApiError, ErrorClass, unusable};
use super::error_chain::error_chain;
use super::kubeconfig;
use super::media_type::{JSON, METADATA_LIST};
use super::settings::{ApiSettings, Verb};
use super::transport;
use super::write_gate::{WriteGate, WriteGateLayer};
use kube_gc_core::object::GroupResource;
use kube_gc_decode::json_fault;

/// Why no connection to an API server can be set up.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no configuration, or it cannot be used.
    #[error("{0}")]
    Config(String),
    /// The configuration cannot be turned into a client.
    #[error("cannot set up the connection to {server}: {cause}")]
    Client {
        /// The server's URL.
        server: String,
        /// The cause.
        cause: String,
    },
}

/// The version of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerVersion {
    /// Such as `v1.33.1`.
    pub git_version: String,
    /// Such as `1`.
    pub major: String,
    /// Such as `33`; some vendors write `33+`.
    pub minor: String,
    /// Such as `linux/amd64`.
    pub platform: String,
}

/// Finds the configuration: the given kubeconfig file, else `$KUBECONFIG`, else
/// `~/.kube/config`, else the service account of the pod in which this process runs.
///
/// # Errors
///
/// Names the file or variable, what is wrong with it, and what to do.
pub async fn load_config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Config, ConnectError> {
    if let Some(path) = kubeconfig {
        let read = read_kubeconfig(path, "--kubeconfig")?;
        return choose(read, context, &path.display().to_string()).await;
    }
    let variable = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    if let Some(value) = variable {
        let mut merged = Kubeconfig::default();
        // As in kubectl: files in the list that do not exist are skipped.
        let paths: Vec<PathBuf> =
            std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect();
        let existing: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
        if existing.is_empty() {
            return Err(ConnectError::Config(format!(
                "$KUBECONFIG names no file that exists: {}; correct or unset it",
                value.to_string_lossy()
            )));
        }
        for path in existing {
            let read = read_kubeconfig(path, "$KUBECONFIG")?;
            merged = merged.merge(read).map_err(|error| {
                ConnectError::Config(format!("the files of $KUBECONFIG cannot be merged: {error}"))
            })?;
        }
        return choose(merged, context, "$KUBECONFIG").await;
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube").join("config"));
    if let Some(path) = home.filter(|path| path.exists()) {
        let read = read_kubeconfig(&path, "the default")?;
        return choose(read, context, &path.display().to_string()).await;
    }
    if let Some(context) = context {
        return Err(ConnectError::Config(format!(
            "there is no kubeconfig to take the context {context:?} from; name one with --kubeconfig"
        )));
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        return Err(ConnectError::Config(
            "no cluster is configured: there is neither a kubeconfig (--kubeconfig, $KUBECONFIG, \
             ~/.kube/config) nor the service account of a pod ($KUBERNETES_SERVICE_HOST is not set)"
                .into(),
        ));
    }
    kube::Config::incluster().map_err(|error| {
        ConnectError::Config(format!(
            "this runs in a pod whose service account cannot be used: {}; is \
             automountServiceAccountToken off?",
            error_chain(&error)
        ))
    })
}

fn read_kubeconfig(path: &Path, origin: &str) -> Result<Kubeconfig, ConnectError> {
    kubeconfig::read(path).map_err(|cause| {
        ConnectError::Config(format!("cannot read the kubeconfig {} ({origin}): {cause}", path.display()))
    })
}

async fn choose(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
    origin: &str,
) -> Result<kube::Config, ConnectError> {
    let names: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| {
        ConnectError::Config(match &error {
            KubeconfigError::CurrentContextNotSet => {
                format!("the kubeconfig {origin} has no current context; choose one with --context (it has: {known})")
            }
            KubeconfigError::LoadContext(name) => {
                format!("the kubeconfig {origin} has no context {name:?} (it has: {known})")
            }
            KubeconfigError::LoadClusterOfContext(name) => {
                format!("the kubeconfig {origin} has no cluster {name:?}, which its context names")
            }
            _ => format!("the kubeconfig {origin} cannot be used: {}", error_chain(&error)),
        })
    })
}

impl Api {
    /// Sets up the clients; sends nothing yet. Call it on the runtime that will run the
    /// requests: a client stops working when the runtime ends on which it was created.
    ///
    /// # Errors
    ///
    /// Certificates or credentials that cannot be used, or an unsupported proxy.
    pub fn connect(
        mut config: kube::Config,
        settings: ApiSettings,
        gate: WriteGate,
    ) -> Result<Self, ConnectError> {
        // By default the client would repeat any request up to fifteen times, including
        // deletes, without regard to the work queues' backoff.
        config.default_retry = false;
        let server = config.cluster_url.to_string();
        let client = |config: kube::Config| {
            ClientBuilder::try_from(config)
                .map(|builder| builder.with_layer(&WriteGateLayer(gate.clone())).build())
                .map_err(|error| ConnectError::Client { server: server.clone(), cause: error_chain(&error) })
        };
        // Lists compress to a tenth; other answers are short. Watches have their own
        // connections, so that no watch can delay a DELETE. Writes use HTTP/1.1: on a shared
        // connection, one lost packet would delay all of them.
        config.disable_compression = false;
        let lists = client(config.clone())?;
        config.disable_compression = true;
        let (unary, watches) = if config.proxy_url.is_some() {
            tracing::debug!(server, "watches use HTTP/1.1, because the kubeconfig names a proxy");
            (client(config.clone())?, client(config)?)
        } else {
            let unusable = |error: BoxError| ConnectError::Client {
                server: server.clone(),
                cause: error_chain(&*error),
            };
            let unary = transport::unary::client(&config, gate.clone()).map_err(unusable)?;
            (unary, transport::client(&config, &settings, gate.clone()).map_err(unusable)?)
        };
        Ok(Self::from_clients(Clients { unary, lists, watches }, settings, gate))
    }

    /// Reads the server's version, and sends one request that needs credentials, so that wrong
    /// ones show at once.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or does not accept the credentials.
    pub async fn probe(&self) -> Result<ServerVersion, ApiError> {
        let discovery = discovery_resource();
        let answer = self.call(Call::get(Verb::Discover, "/version".into(), JSON, &discovery)).await?;
        let version = serde_json::from_slice(&answer.body)
            .map_err(|error| unusable("GET", "/version".into(), json_fault(&error), answer.code))?;
        self.call(Call::get(Verb::Discover, "/api".into(), JSON, &discovery)).await?;
        Ok(version)
    }

    /// Whether the credentials may list at least one of the types that every cluster has many
    /// objects of. If not, there is no point in starting. If so, readiness names the types that
    /// cannot be listed.
    ///
    /// # Errors
    ///
    /// All lists failed for another reason than a denial.
    pub async fn may_list(&self) -> Result<bool, ApiError> {
        let mut other = None;
        let mut denied = false;
        for resource in ["namespaces", "configmaps", "pods", "secrets"] {
            let resource = GroupResource::new("", resource);
            let path = format!("/api/v1/{resource}?limit=1");
            match self.call(Call::get(Verb::List, path, METADATA_LIST, &resource)).await {
                Ok(_) => return Ok(true),
                Err(error) if error.class == ErrorClass::Denied && error.code == Some(403) => denied = true,
                Err(error) => other = Some(error),
            }
        }
        match other {
            Some(error) if !denied => Err(error),
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Reply, Server};
    use crate::api::{ErrorClass, WriteGate};

    async fn load(text: &str, context: Option<&str>) -> Result<kube::Config, ConnectError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        std::fs::write(&path, text).unwrap();
        load_config(Some(&path), context).await
    }

    const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: SECRET}}]
contexts: [{name: one, context: {cluster: a, user: u}}, {name: two, context: {cluster: b, user: u}}]
";

    #[tokio::test]
    async fn the_context_is_chosen_or_named_as_missing() {
        let config = load(KUBECONFIG, Some("one")).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:1/");
        let error = load(KUBECONFIG, None).await.unwrap_err().to_string();
        assert!(error.contains("no current context") && error.contains("one, two"), "{error}");
        let error = load(KUBECONFIG, Some("three")).await.unwrap_err().to_string();
        assert!(error.contains("no context \"three\" (it has: one, two)"), "{error}");
        let error = load(KUBECONFIG, Some("two")).await.unwrap_err().to_string();
        assert!(error.contains("no cluster \"b\""), "{error}");
    }

    #[tokio::test]
    async fn a_broken_file_is_named_and_not_quoted() {
        let broken = KUBECONFIG.replace("{token: SECRET}", "{token: [SECRET}");
        let error = load(&broken, None).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot read the kubeconfig /"), "{error}");
        assert!(!error.contains("SECRET"), "{error}");
        let error = load_config(Some(Path::new("/nowhere/config")), None).await.unwrap_err().to_string();
        assert!(error.contains("/nowhere/config (--kubeconfig): No such file"), "{error}");
    }

    #[tokio::test]
    async fn an_invalid_token_is_not_reported_as_an_unreachable_server() {
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "SECRET\n").unwrap();
        let file = format!("{{tokenFile: '{}'}}", token.path().display());
        let config = load(&KUBECONFIG.replace("{token: SECRET}", &file), Some("one")).await.unwrap();
        let api = Api::connect(config, ApiSettings::default(), WriteGate::open()).unwrap();
        let error = api.probe().await.unwrap_err();
        assert_eq!((error.class, error.code), (ErrorClass::Denied, None), "{error}");
        assert!(error.message.contains("invalid bearer token"), "{error}");
    }

    #[tokio::test]
    async fn connecting_sends_nothing() {
        let config = load(KUBECONFIG, Some("one")).await.unwrap();
        Api::connect(config, ApiSettings::default(), WriteGate::open()).unwrap();
    }

    #[tokio::test]
    async fn the_probe_reports_the_version_and_wrong_credentials() {
        let version = r#"{"major":"1","minor":"33","gitVersion":"v1.33.1","platform":"linux/amd64"}"#;
        let server = Server::replying([Reply::ok(version), Reply::ok("{}")]);
        assert_eq!(server.api().probe().await.unwrap().git_version, "v1.33.1");
        let server = Server::replying([Reply::ok(version), Reply::status(401, "Unauthorized", "{}")]);
        let error = server.api().probe().await.unwrap_err();
        assert_eq!((error.class, error.message.as_str()), (ErrorClass::Denied, "Unauthorized"));
    }
}
