//! The connection to one API server, and the credentials that all its clients share.
//!
//! Certificates, keys and tokens change while a collector runs. So the files that a kubeconfig names are
//! read again at most 10 s after they change, and at once when the server refuses what is known. An exec
//! plugin is asked once for all clients, again when its credentials end, and again after a refusal.

mod credentials;
mod exec;
mod proxy;
mod tls;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use credentials::State;
use http::header::{AUTHORIZATION, USER_AGENT as USER_AGENT_HEADER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use kube::client::Body;
use tokio_rustls::rustls::{self, AlertDescription, ClientConfig};
use tower::{BoxError, Service, ServiceExt as _};

use super::connection_error::{causes, error_chain};
use super::settings::USER_AGENT;
pub(super) use credentials::Credentials;
pub(super) use proxy::{Carrier, choose as choose_proxy, dial};

/// How an API server is reached, and as whom. Clones share the credentials.
#[derive(Clone)]
pub struct Connection {
    config: Arc<kube::Config>,
    credentials: Arc<Credentials>,
    tls: ClientConfig,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.server()).finish_non_exhaustive()
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
        let tls = tls::client_config(credentials.latest()).map_err(|error| unusable(&config, &error))?;
        Ok(Self { config, credentials, tls })
    }

    /// The URL of the server for people, without a user and a password.
    pub fn server(&self) -> String {
        without_user(&self.config.cluster_url)
    }

    /// The configuration with which it began.
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

fn without_user(url: &http::Uri) -> String {
    let authority = url.authority().map_or("", http::uri::Authority::as_str);
    match authority.rsplit_once('@') {
        Some((user, _)) => url.to_string().replacen(&format!("{user}@"), "", 1),
        None => url.to_string(),
    }
}

fn unusable(config: &kube::Config, error: &(dyn Error + 'static)) -> ConnectError {
    ConnectError::Client { server: without_user(&config.cluster_url), cause: error_chain(error) }
}

/// Why no connection to an API server can be set up.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no configuration, or it cannot be used.
    #[error("{0}")]
    Config(String),
    /// The configuration cannot be turned into a client.
    #[error("cannot set up the connection to {server}: {cause}")]
    Client { server: String, cause: String },
}

/// Why there are no credentials. The message contains no part of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialsError(String);

impl CredentialsError {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// The same with what it is about.
    pub fn of(self, what: &str) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

/// Marks an answer to a write: the credentials were refused, and there are others now. The write gate
/// and the restore fence have to be asked before it is sent again.
#[derive(Clone, Copy, Debug)]
pub struct Renewed;

/// Adds credentials to a request and sends it. When the server refuses them, they are read again, and a
/// request that only reads is repeated. Writes are repeated, too, if nothing has to be asked before.
pub async fn authorized<S, B>(
    mut service: S,
    credentials: Arc<Credentials>,
    repeats_writes: bool,
    request: Request<Body>,
) -> Result<Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
{
    let may_repeat = repeats_writes || request.method() == Method::GET;
    let state = credentials.current().await?;
    let (head, body) = request.into_parts();
    // There is none if the body is not in memory.
    let copy = body.try_clone().filter(|_| may_repeat).map(|body| Request::from_parts(head.clone(), body));
    let request = Request::from_parts(head, body);
    let answer = service.ready().await?.call(with(request, &state)).await;
    let is_refused = match &answer {
        Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
        Err(error) => is_about_certificates(&**error),
    };
    if !is_refused {
        return answer;
    }
    let Some(state) = credentials.refused(state.version).await else { return answer };
    match copy {
        Some(copy) => service.ready().await?.call(with(copy, &state)).await,
        None => answer.map(|mut answer| {
            answer.extensions_mut().insert(Renewed);
            answer
        }),
    }
}

fn with(mut request: Request<Body>, state: &State) -> Request<Body> {
    let headers = request.headers_mut();
    headers.entry(USER_AGENT_HEADER).or_insert(HeaderValue::from_static(USER_AGENT));
    if let Some(value) = &state.authorization {
        headers.insert(AUTHORIZATION, value.clone());
    }
    request
}

/// Whether one side has rejected the other's certificate, so that nothing was sent or read.
fn is_about_certificates(error: &(dyn Error + 'static)) -> bool {
    use AlertDescription as Alert;
    causes(error).filter_map(|cause| cause.downcast_ref()).any(|cause| {
        matches!(
            cause,
            rustls::Error::InvalidCertificate(_)
                | rustls::Error::AlertReceived(
                    Alert::BadCertificate
                        | Alert::UnsupportedCertificate
                        | Alert::CertificateRevoked
                        | Alert::CertificateExpired
                        | Alert::CertificateUnknown
                        | Alert::UnknownCA
                        | Alert::AccessDenied
                        | Alert::CertificateRequired
                )
        )
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::Connection;
    use crate::testing::{order, widget};
    use crate::{Api, ApiSettings, Deleted, ErrorClass, WriteGate};

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

    /// The log and errors have it.
    #[test]
    fn the_user_and_password_of_a_url_are_not_shown() {
        for (url, shown) in [
            ("https://me:secret@example.com:6443/at", "https://example.com:6443/at"),
            ("https://example.com/", "https://example.com/"),
        ] {
            let connection = Connection::new(kube::Config::new(url.parse().unwrap())).unwrap();
            assert_eq!(connection.server(), shown);
            assert!(!format!("{connection:?}").contains("secret"));
        }
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
            let api =
                Api::over(&Connection::new(config).unwrap(), ApiSettings::default(), gate.clone()).unwrap();
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
            let order = order(&widget);
            let (deleted, ()) = tokio::join!(api.delete(&order, None), server);
            if is_paused {
                assert_eq!(deleted.unwrap_err().class, ErrorClass::GateClosed);
            } else {
                assert_eq!(deleted, Ok(Deleted::Removed));
            }
        }
    }
}
