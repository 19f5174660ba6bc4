//! Finding and reaching the API server.

use std::path::Path;

use super::client::Api;
use super::error::ApiError;
use super::gate::WriteGate;
use super::settings::ApiSettings;

/// Why there is no way to an API server, for people.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No or unusable configuration.
    #[error("{0}")]
    Config(String),
    /// The configuration cannot be turned into a client.
    #[error("cannot set up the connection to {server}: {cause}")]
    Client {
        /// The server's URL.
        server: String,
        /// What does not work.
        cause: String,
    },
}

/// What the server says it is.
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
/// `~/.kube/config`, else the service account of the pod that this runs in.
///
/// # Errors
///
/// Says which file or variable is meant, what is wrong with it, and what to do.
pub async fn load_config(
    _kubeconfig: Option<&Path>,
    _context: Option<&str>,
) -> Result<kube::Config, ConnectError> {
    unimplemented!()
}

impl Api {
    /// Sets up the way to the server; sends nothing yet. Call it on the runtime
    /// that requests are to run on.
    ///
    /// # Errors
    ///
    /// Certificates or credentials that cannot be used, an unsupported proxy.
    pub fn connect(
        config: kube::Config,
        settings: ApiSettings,
        gate: WriteGate,
    ) -> Result<Self, ConnectError> {
        let _ = (config, settings, gate);
        unimplemented!()
    }

    /// Asks what the server is, and makes one call that needs credentials, so
    /// that wrong ones show at once.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or does not accept the credentials.
    pub async fn probe(&self) -> Result<ServerVersion, ApiError> {
        unimplemented!()
    }
}
