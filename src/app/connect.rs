//! Connects to the API server, and finds out early whether a collector can work there.

#[cfg(feature = "cli")]
use super::run::Target;
use super::{Error, ErrorKind};
#[cfg(feature = "cli")]
use kube_gc_client::load_config;
use kube_gc_client::{Api, ApiError, ApiSettings, Clock, Connection, ErrorClass, WriteGate};
use kube_gc_config::Settings;
use kube_gc_controller::worker::namespaces::find_rival;

/// Reads the kubeconfig.
#[cfg(feature = "cli")]
pub async fn config(target: &Target) -> Result<kube::Config, Error> {
    let Target { kubeconfig, context, user, groups, uid } = target;
    let config = load_config(kubeconfig.as_deref(), context.as_deref()).await;
    let mut config = config.map_err(|error| Error::new(ErrorKind::Kubeconfig, error))?;
    if user.is_some() {
        let auth = &mut config.auth_info;
        auth.impersonate.clone_from(user);
        auth.impersonate_uid.clone_from(uid);
        auth.impersonate_groups = Some(groups.clone()).filter(|groups| !groups.is_empty());
        auth.impersonate_user_extra = None;
    }
    Ok(config)
}

/// Asks the exec plugin of a configuration, and builds a client for its server. Sends nothing yet.
pub async fn client(
    config: kube::Config,
    settings: ApiSettings,
    gate: WriteGate,
) -> Result<(Connection, Api), Error> {
    let unusable = |error: &dyn std::error::Error| Error::new(ErrorKind::Credentials, error);
    let connection = Connection::new(config).map_err(|error| unusable(&error))?;
    connection.authenticate().await.map_err(|error| unusable(&error))?;
    let api = Api::over(&connection, settings, gate).map_err(|error| unusable(&error))?;
    Ok((connection, api))
}

/// The client of a collector that can work there.
pub async fn collector(config: kube::Config, settings: &Settings) -> Result<(Connection, Api), Error> {
    let (connection, api) = client(config, settings.into(), gate(settings)).await?;
    check(&api, &connection.server(), settings).await?;
    Ok((connection, api))
}

/// The place that a URL names, without a user and a password.
pub fn place(url: &http::Uri) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}{}", url.host().unwrap_or_default(), url.path().trim_end_matches('/'))
}

/// What to do without the rights that a garbage collector needs.
const ROLE: &str = "see deploy/README.md for the role that a garbage collector needs";

/// Asks the server for its version and for the right to list everything: both fail now rather
/// than later, while somebody may still be watching. `server` is its name in messages.
pub async fn check(api: &Api, server: &str, settings: &Settings) -> Result<(), Error> {
    let version = api.probe().await.map_err(|error| rejected(server, &error, ROLE))?;
    let allowed = api.may_list().await.map_err(|error| rejected(server, &error, ROLE))?;
    if !allowed {
        return Err(Error::new(
            ErrorKind::Forbidden,
            format!(
                "these credentials may not list any resource type on {server}; a garbage collector has to list, watch, \
                 get, patch and delete every resource: see deploy/README.md for the role that it needs"
            ),
        ));
    }
    if settings.finish_namespaces || settings.remove_protection_finalizers {
        check_alone(api, server).await?;
    }
    tracing::info!(%server, version, dry_run = settings.dry_run, "connected");
    Ok(())
}

/// Fails if another controller does the same (rule 11.8).
async fn check_alone(api: &Api, server: &str) -> Result<(), Error> {
    match find_rival(api, None).await {
        Ok((None, _)) => Ok(()),
        Ok((Some(rival), _)) => Err(Error::new(
            ErrorKind::Settings,
            format!(
                "`finish_namespaces` or `remove_protection_finalizers` is set, but {rival} on {server}, and \
                 kube-controller-manager does this itself; unset it, or remove what is left of a kube-controller-manager that no longer runs: see \
                 docs/finish-namespaces.md"
            ),
        )),
        Err(error) => Err(rejected(server, &error, ROLE)),
    }
}

/// Why the API server cannot be asked, and what to do about it. `forbidden` says what to do without the
/// right to ask.
pub fn rejected(server: &str, error: &ApiError, forbidden: &str) -> Error {
    let (kind, problem, hint) = match (error.class, error.code) {
        (_, Some(401)) => (
            ErrorKind::Credentials,
            format!("{server} rejects the credentials"),
            "check the user in the kubeconfig and whether its token has expired",
        ),
        (ErrorClass::Denied, None) => (
            ErrorKind::Credentials,
            format!("there are no credentials for {server}"),
            "check the user in the kubeconfig",
        ),
        (ErrorClass::Denied, Some(_)) => {
            (ErrorKind::Forbidden, format!("{server} does not allow this"), forbidden)
        }
        (_, None) if error.message.contains("certificate") => (
            ErrorKind::Credentials,
            format!("the certificate of {server} is not trusted"),
            "check certificate-authority in the kubeconfig",
        ),
        // A webhook of conversion, or of admission, that does not answer.
        (_, Some(_)) if error.message.contains("webhook") => (
            ErrorKind::Internal,
            format!("{server} cannot ask a webhook"),
            "repair the webhook that it names, or the Service behind it",
        ),
        (_, code) => {
            let problem = if code.is_some() { "does not answer as it should" } else { "cannot be reached" };
            let hint = "check the address and that the server is running";
            (ErrorKind::Unreachable, format!("{server} {problem}"), hint)
        }
    };
    Error::new(kind, format!("{problem}: {error}; {hint}"))
}

/// The write gate that these settings require.
pub fn gate(settings: &Settings) -> WriteGate {
    match (settings.dry_run, settings.leader.enabled) {
        (true, _) => WriteGate::dry_run(),
        (false, true) => WriteGate::leased(Clock::Boot),
        (false, false) => WriteGate::open(),
    }
}
