//! Connects to the API server, and finds out early whether a collector can work there.

#[cfg(feature = "cli")]
use super::run::Target;
use super::{Error, ErrorKind};
use kube_gc_client::{
    Api, ApiError, ApiSettings, ConnectError, Connection, ErrorClass, WriteGate, load_config,
};
use kube_gc_config::Settings;
use kube_gc_controller::worker::namespaces::find_rival;

/// Reads the kubeconfig, asks its exec plugin, and builds a client for the server that it names. Sends
/// nothing yet.
#[cfg(feature = "cli")]
pub async fn client(
    target: &Target,
    settings: ApiSettings,
    gate: WriteGate,
) -> Result<(Connection, Api), Error> {
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
    let unusable = |error: ConnectError| {
        let kind = match error {
            ConnectError::Config(_) => ErrorKind::Kubeconfig,
            ConnectError::Client { .. } => ErrorKind::Credentials,
        };
        Error::new(kind, error)
    };
    let connection = Connection::new(config).map_err(unusable)?;
    let authenticated = connection.authenticate().await;
    authenticated.map_err(|error| Error::new(ErrorKind::Credentials, error))?;
    let api = Api::over(&connection, settings, gate).map_err(unusable)?;
    Ok((connection, api))
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
    if settings.finish_namespaces {
        check_alone(api, server).await?;
    }
    tracing::info!(%server, version = version.git_version, dry_run = settings.dry_run, "connected");
    Ok(())
}

/// Fails if another controller finalizes namespaces (rule 11.8).
async fn check_alone(api: &Api, server: &str) -> Result<(), Error> {
    match find_rival(api, None).await {
        Ok((None, _)) => Ok(()),
        Ok((Some(rival), _)) => Err(Error::new(
            ErrorKind::Settings,
            format!(
                "`finish_namespaces` is set, but {rival} on {server}, and kube-controller-manager finalizes namespaces \
                 itself; unset it, or remove what is left of a kube-controller-manager that no longer runs: see \
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
        (_, code) => {
            let problem = if code.is_some() { "does not answer as it should" } else { "cannot be reached" };
            let hint = "check the address and that the server is running";
            (ErrorKind::Unreachable, format!("{server} {problem}"), hint)
        }
    };
    Error::new(kind, format!("{problem}: {error}; {hint}"))
}
