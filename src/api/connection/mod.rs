//! The connection to one API server, and the credentials that all its clients share.
//!
//! Certificates, keys and tokens change while a collector runs. So the files that a kubeconfig names are
//! read again at most 10 s after they change, and at once when the server refuses what is known. An exec
//! plugin is asked once for all clients, again when its credentials end, and again after a refusal.

mod authorized;
mod credentials;
mod error;
mod exec;
mod proxy;
mod tls;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::ClientConfig;

use super::error_chain::error_chain;
pub(super) use authorized::{Authorized, Renewed};
pub(super) use credentials::Credentials;
pub use error::{ConnectError, CredentialsError};
pub(super) use proxy::{Carrier, Dial, choose as choose_proxy, dial};

/// How an API server is reached, and as whom. Clones share the credentials.
#[derive(Clone)]
pub struct Connection {
    config: Arc<kube::Config>,
    credentials: Arc<Credentials>,
    tls: ClientConfig,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.config.cluster_url).finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads the files that the configuration names. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn new(config: kube::Config) -> Result<Self, ConnectError> {
        let config = Arc::new(config);
        let credentials = Credentials::new(Arc::clone(&config)).map_err(|error| unusable(&config, &error))?;
        let credentials = Arc::new(credentials);
        let tls =
            tls::client_config(credentials.certificates()).map_err(|error| unusable(&config, &error))?;
        Ok(Self { config, credentials, tls })
    }

    /// The configuration with which it began.
    #[must_use]
    pub fn config(&self) -> &kube::Config {
        &self.config
    }

    /// Why no client can be set up.
    pub(super) fn unusable(&self, error: &(dyn Error + 'static)) -> ConnectError {
        unusable(&self.config, error)
    }

    pub(super) const fn tls(&self) -> &ClientConfig {
        &self.tls
    }

    pub(super) const fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// Asks the exec plugin, if there is one. Without this, the first request does, within its time
    /// limit, which may be too short for a person to log in.
    ///
    /// # Errors
    ///
    /// There are no credentials.
    pub async fn authenticate(&self) -> Result<(), CredentialsError> {
        self.credentials.current().await.map(|_| ())
    }
}

fn unusable(config: &kube::Config, error: &(dyn Error + 'static)) -> ConnectError {
    ConnectError::Client { server: config.cluster_url.to_string(), cause: error_chain(error) }
}
