//! Finds the API server and connects to it.

use std::path::{Path, PathBuf};

use kube::config::{Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_json::Value;
use tower::BoxError;

use super::call::{Call, JSON, METADATA_LIST};
use super::client::{Api, Clients, Sender};
use super::connection::{ConnectError, Connection, choose_proxy};
use super::connection_error::error_chain;
use super::error::{ApiError, ErrorClass};
use super::settings::ApiSettings;
use super::transport;
use super::write_gate::WriteGate;
use kube_gc_core::object::{ResourceType, Scope};

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
    let variable = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube").join("config"));
    if let Some(path) = kubeconfig {
        return choose(read_kubeconfig(path, "--kubeconfig")?, context, &path.display().to_string()).await;
    } else if let Some(value) = variable {
        // As in kubectl: files in the list that do not exist are skipped.
        let existing: Vec<_> = std::env::split_paths(&value).filter(|path| path.exists()).collect();
        if existing.is_empty() {
            return Err(ConnectError::Config(format!(
                "$KUBECONFIG names no file that exists: {}; correct or unset it",
                value.to_string_lossy()
            )));
        }
        let merged = existing.iter().try_fold(Kubeconfig::default(), |merged, path| {
            merged.merge(read_kubeconfig(path, "$KUBECONFIG")?).map_err(|error| {
                ConnectError::Config(format!("the files of $KUBECONFIG cannot be merged: {error}"))
            })
        });
        return choose(merged?, context, "$KUBECONFIG").await;
    } else if let Some(path) = home.filter(|path| path.exists()) {
        return choose(read_kubeconfig(&path, "the default")?, context, &path.display().to_string()).await;
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
    let mut config = kube::Config::incluster().map_err(|error| {
        ConnectError::Config(format!(
            "this runs in a pod whose service account cannot be used: {}; is \
             automountServiceAccountToken off?",
            error_chain(&error)
        ))
    })?;
    config.proxy_url = proxy(None, &config)?;
    Ok(config)
}

/// Reads a kubeconfig. Paths in it are relative to its directory, as for kubectl, or, for one that comes through
/// a pipe, to the working directory, as in client-go for content without a file. What is empty says nothing.
fn read_kubeconfig(path: &Path, origin: &str) -> Result<Kubeconfig, ConnectError> {
    let read = if [Some(Path::new("/dev")), Some(Path::new("/dev/fd"))].contains(&path.parent()) {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| KubeconfigError::ReadConfig(error, path.to_owned()));
        text.and_then(|text| Kubeconfig::from_yaml(&text))
    } else {
        Kubeconfig::read_from(path)
    };
    let mut read = read.map_err(|error| {
        let cause = match &error {
            KubeconfigError::ReadConfig(error, _) => error_chain(error),
            // The parser quotes values, and the lines around the error, which may be a token.
            KubeconfigError::Parse(error) => match error.location() {
                Some(place) => format!(
                    "it is not valid YAML, or a value is not of the right type, at line {}, column {}",
                    place.line(),
                    place.column()
                ),
                None => "it is not valid YAML, or a value is not of the right type".to_owned(),
            },
            error => error.to_string(),
        };
        ConnectError::Config(format!("cannot read the kubeconfig {} ({origin}): {cause}", path.display()))
    })?;
    // kube has made an empty path the directory of the file.
    let nothing = |value: &mut Option<String>| {
        if value.as_ref().is_some_and(|value| value.is_empty() || value.ends_with('/')) {
            *value = None;
        }
    };
    nothing(&mut read.current_context);
    for cluster in read.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        nothing(&mut cluster.certificate_authority);
    }
    for user in read.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        for file in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            nothing(file);
        }
    }
    for context in read.contexts.iter_mut().filter_map(|named| named.context.as_mut()) {
        nothing(&mut context.namespace);
    }
    Ok(read)
}

async fn choose(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
    origin: &str,
) -> Result<kube::Config, ConnectError> {
    let names: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let cluster = cluster(&kubeconfig, context).cloned().unwrap_or_default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| {
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
    })?;
    // kube reads this file once, and holds the proxy's address against NO_PROXY, not the server's.
    if cluster.certificate_authority_data.is_none() {
        config.root_cert_file = cluster.certificate_authority.map(PathBuf::from);
    }
    config.proxy_url = proxy(cluster.proxy_url.as_deref(), &config)?;
    Ok(config)
}

/// The cluster that a context names.
fn cluster<'a>(kubeconfig: &'a Kubeconfig, context: Option<&str>) -> Option<&'a Cluster> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?.context.as_ref()?;
    kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()
}

fn proxy(configured: Option<&str>, config: &kube::Config) -> Result<Option<http::Uri>, ConnectError> {
    choose_proxy(configured, &config.cluster_url).map_err(|error| ConnectError::Config(error.to_string()))
}

impl Api {
    /// Sets up the clients; sends nothing yet. Call it on the runtime that will run the
    /// requests: a client stops working when the runtime ends on which it was created.
    ///
    /// # Errors
    ///
    /// An address or a header that cannot be used.
    pub fn over(
        connection: &Connection,
        settings: ApiSettings,
        gate: WriteGate,
    ) -> Result<Self, ConnectError> {
        // Lists compress to a tenth; other answers are short. Watches have their own
        // connections, so that no watch can delay a DELETE. Writes use HTTP/1.1: on a shared
        // connection, one lost packet would delay all of them.
        let clients = || -> Result<Clients, BoxError> {
            Ok(Clients {
                unary: Sender(transport::unary(connection, Some(gate.clone()))?),
                lists: Sender(transport::lists(connection, gate.clone())?),
                watches: Sender(transport::watches(connection, &settings, gate.clone())?),
            })
        };
        let clients = clients().map_err(|error| connection.unusable(&*error))?;
        Ok(Self::from_clients(clients, settings, gate))
    }

    /// Reads the server's version, and sends one request that needs credentials, so that wrong
    /// ones show at once.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or does not accept the credentials.
    pub async fn probe(&self) -> Result<String, ApiError> {
        let version: Value = self.call(Call::discover("/version", JSON)).await?.json()?;
        self.call(Call::discover("/api", JSON)).await?;
        Ok(version["gitVersion"].as_str().unwrap_or_default().to_owned())
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
            let resource = ResourceType::of(resource, "v1", "", Scope::Cluster);
            match self.call(Call::list(&resource, None, METADATA_LIST).with("limit", "1")).await {
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
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;
    use crate::testing::{Reply, Server};
    use crate::{ErrorClass, WriteGate};

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
    async fn a_missing_file_is_named() {
        let error = load_config(Some(Path::new("/nowhere/config")), None).await.unwrap_err().to_string();
        assert!(error.contains("/nowhere/config (--kubeconfig): No such file"), "{error}");
    }

    #[tokio::test]
    async fn a_failing_plugin_is_not_reported_as_an_unreachable_server() {
        let plugin = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere/login, installHint: buy it}}";
        let config = load(&KUBECONFIG.replace("{token: SECRET}", plugin), Some("one")).await.unwrap();
        let api =
            Api::over(&Connection::new(config).unwrap(), ApiSettings::default(), WriteGate::open()).unwrap();
        let error = api.probe().await.unwrap_err();
        assert_eq!((error.class, error.code), (ErrorClass::Denied, None), "{error}");
        assert!(error.message.contains("/nowhere/login") && error.message.contains("buy it"), "{error}");
        assert!(api.refused_credentials().is_some());
    }

    #[tokio::test]
    async fn what_is_empty_says_nothing() {
        let text = KUBECONFIG.replace("server:", "certificate-authority: '', server:");
        let text = text.replace("cluster: a, user: u", "cluster: a, user: u, namespace: ''");
        let config = load(&text, Some("one")).await.unwrap();
        assert_eq!((config.root_cert_file, config.default_namespace.as_str()), (None, "default"));
        let error = load(&format!("{text}current-context: ''"), None).await.unwrap_err().to_string();
        assert!(error.contains("no current context"), "{error}");
    }

    /// Fails if the certificates beside a program are looked for in `/dev`.
    #[tokio::test]
    async fn paths_are_relative_to_the_file_or_without_one_to_the_working_directory() {
        let text = KUBECONFIG.replace("{token: SECRET}", "{tokenFile: a/token, exec: {command: a/login}}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        std::fs::write(&path, &text).unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        let pipe = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        for (kubeconfig, beside) in [(path, directory.path()), (pipe, Path::new(""))] {
            let user = load_config(Some(&kubeconfig), Some("one")).await.unwrap().auth_info;
            let found = [user.token_file, user.exec.and_then(|exec| exec.command)];
            let expected = ["a/token", "a/login"].map(|name| beside.join(name).to_str().map(str::to_owned));
            assert_eq!(found, expected);
        }
    }

    #[tokio::test]
    async fn a_message_contains_no_secret() {
        let secret = "s3cret, expected s3cret";
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "s3cret\ns3cret\n").unwrap();
        for user in [
            format!("{{tokenFile: '{}'}}", token.path().display()),
            format!("'{secret}'"),
            format!("{{token: {{a: '{secret}'}}}}"),
            format!("{{token: ['{secret}']}}"),
            format!("{{exec: {{interactiveMode: '{secret}'}}}}"),
            format!("{{exec: {{provideClusterInfo: '{secret}'}}}}"),
            format!("{{client-key-data: '{secret}', client-certificate-data: aaaa}}"),
            format!("{{token: '{secret}', : ["),
            format!("{{token: *{secret}}}"),
            format!("{{token: [{secret}}}"),
        ] {
            let text = KUBECONFIG.replace("{token: SECRET}", &user);
            let error = match load(&text, Some("one")).await {
                Ok(config) => Connection::new(config).unwrap_err(),
                Err(error) => error,
            };
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[tokio::test]
    async fn the_probe_reports_the_version_and_wrong_credentials() {
        let version = r#"{"major":"1","minor":"33","gitVersion":"v1.33.1","platform":"linux/amd64"}"#;
        let server = Server::replying([Reply::ok(version), Reply::ok("{}")]);
        assert_eq!(server.api().probe().await.unwrap(), "v1.33.1");
        let server = Server::replying([Reply::ok(version), Reply::status(401, "Unauthorized", "{}")]);
        let error = server.api().probe().await.unwrap_err();
        assert_eq!((error.class, error.message.as_str()), (ErrorClass::Denied, "Unauthorized"));
    }
}
