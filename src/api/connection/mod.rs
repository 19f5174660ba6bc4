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

#[cfg(test)]
mod tests {
    use kube_gc_core::object::PropagationPolicy;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use crate::api::scripted::widget;
    use crate::api::{Api, ApiSettings, Deleted, ErrorClass, WriteGate};

    /// Reads a request to its end and answers it; returns the request's head.
    async fn answer(listener: &TcpListener, status: &str, body: &str, before: impl FnOnce()) -> String {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        connection.read_exact(&mut vec![0; length.parse().unwrap()]).await.unwrap();
        before();
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        connection.write_all(answer.as_bytes()).await.unwrap();
        head
    }

    /// Until there are new credentials, another replica may have become the leader.
    #[tokio::test]
    async fn a_write_with_new_credentials_asks_the_gate_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let token = tempfile::NamedTempFile::new().unwrap();
        for is_paused in [false, true] {
            std::fs::write(token.path(), "old").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let mut config = kube::Config::new(url.parse().unwrap());
            config.auth_info.token_file = token.path().to_str().map(str::to_owned);
            let gate = WriteGate::open();
            let api = Api::connect(config, ApiSettings::default(), gate.clone()).unwrap();
            std::fs::write(token.path(), "new").unwrap();
            let server = async {
                let pause = || {
                    if is_paused {
                        gate.pause();
                    }
                };
                let head = answer(&listener, "401 Unauthorized", "{}", pause).await;
                assert!(head.contains("authorization: bearer old"), "{head}");
                if !is_paused {
                    let success = r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#;
                    let head = answer(&listener, "200 OK", success, || ()).await;
                    assert!(head.contains("authorization: bearer new"), "{head}");
                }
            };
            let widget = widget();
            let (deleted, ()) =
                tokio::join!(api.delete(&widget, PropagationPolicy::Background, None), server);
            if is_paused {
                assert_eq!(deleted.unwrap_err().class, ErrorClass::GateClosed);
            } else {
                assert_eq!(deleted, Ok(Deleted::Removed));
            }
        }
    }
}
