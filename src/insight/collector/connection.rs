//! Where the debug pages of a collector are, what it takes to ask them, and requests to them.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::uri::Scheme;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use kube_gc_client::{Api, ErrorClass, LabelledPod};
use kube_gc_core::text::bounded;

/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of the first answer, which a collector gives at once.
pub(super) const FIRST_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of an answer. The collector gives up after 30 s, and a large answer takes a while.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);
/// The most bytes of an answer.
const MOST_BYTES: usize = 64 << 20;

/// The bytes of a connection of any kind. So there is one client of HTTP for all.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection, and why it failed, if something between here and the collector knows that.
type Open = (SendRequest<Empty<Bytes>>, BoxFuture<'static, Option<String>>);

/// Why a collector has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectorError {
    /// There is no connection, or no answer.
    #[error("the collector at {at} cannot be reached: {why}; check the address and that kube-gc runs")]
    Unreachable { at: String, why: String },
    /// None was found.
    #[error(
        "no collector was found: {why}; name its namespace by --collector-namespace, or its address by --collector, \
         or use --from lists"
    )]
    NotFound { why: String },
    /// The user may not look for one.
    #[error(
        "no collector can be looked for: {0}; you need the right to list pods in its namespace \
         (--collector-namespace), or its address (--collector)"
    )]
    PodsForbidden(String),
    /// The user may not connect to its pod.
    #[error(
        "the collector cannot be reached: {0}; you need the right to get and create pods/portforward there, \
         or its address (--collector)"
    )]
    ForwardForbidden(String),
    /// It does not know the token, or wants one.
    #[error("the collector at {at} wants a token that its cluster knows (401): use --collector-token-file")]
    Unauthenticated { at: String },
    /// The user may not read its pages.
    #[error("the collector at {at} forbids this (403): {why}")]
    Forbidden { at: String, why: String },
    /// Something else answers.
    #[error("{at} is not the debug listener of kube-gc: {why}; it is on port 8081 by default")]
    NotKubeGc { at: String, why: String },
    /// It is kube-gc, and does not know this cluster.
    #[error(
        "the collector at {at} does not know a namespace of this cluster: it is of another cluster, or has not \
         listed namespaces; check the address and the context, or use --from lists"
    )]
    OtherCluster { at: String },
    /// It may be that of another cluster.
    #[error(
        "nothing shows that the collector at {at} is of this cluster, because you may get none of its namespaces; ask \
         for the right to get one, or use --from lists"
    )]
    Unverified { at: String },
    /// It is kube-gc, and does not have the page or an answer that this version understands.
    #[error(
        "the collector at {at} is of another version ({why}): use a kube-gc of the same version, or --from lists"
    )]
    OtherVersion { at: String, why: String },
    /// It answers with an error.
    #[error("the collector at {at} answers {code}: {why}")]
    Failed { at: String, code: u16, why: String },
}

impl Endpoint {
    /// A whole answer; `None` for 404.
    pub(super) async fn get(&self, path: &str, limit: Duration) -> Result<Option<Bytes>, CollectorError> {
        let open = timeout(CONNECT_TIMEOUT, Box::pin(self.open())).await;
        let too_late = |_| Err(self.unreachable(&"the connection is not made in time"));
        let (mut sender, failure) = open.unwrap_or_else(too_late)?;
        let mut request = Request::get(format!("{}{path}", self.prefix))
            .header(HOST, &self.authority)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("kube-gc/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| self.unreachable(&error))?;
        let exchange = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((status, body.to_bytes()))
        };
        let (status, body) = match timeout(limit, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                // The kubelet knows better why a forwarded port has no answer.
                let failure = timeout(CONNECT_TIMEOUT, failure).await.ok().flatten();
                return Err(self.unreachable(&failure.unwrap_or_else(|| error.to_string())));
            }
            Err(_) => return Err(self.unreachable(&format_args!("it does not answer within {limit:?}"))),
        };
        let (at, why) = (self.to_string(), bounded(String::from_utf8_lossy(&body).trim()));
        match status {
            StatusCode::OK => Ok(Some(body)),
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::UNAUTHORIZED => Err(CollectorError::Unauthenticated { at }),
            StatusCode::FORBIDDEN => Err(CollectorError::Forbidden { at, why }),
            code => Err(CollectorError::Failed { at, code: code.as_u16(), why }),
        }
    }

    pub(super) fn unreachable(&self, why: &dyn fmt::Display) -> CollectorError {
        CollectorError::Unreachable { at: self.to_string(), why: bounded(why) }
    }

    pub(super) fn other_version(&self, why: impl fmt::Display) -> CollectorError {
        CollectorError::OtherVersion { at: self.to_string(), why: bounded(why) }
    }

    async fn open(&self) -> Result<Open, CollectorError> {
        let (stream, failure): (Box<dyn Stream>, _) = match &self.route {
            Route::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(|error| self.unreachable(&error))?;
                (Box::new(stream), std::future::ready(None).boxed())
            }
            Route::Pod { api, namespace, name, port } => {
                let (stream, failure) = api.forward_port(namespace, name, *port).await.map_err(|error| {
                    if error.class == ErrorClass::Denied {
                        CollectorError::ForwardForbidden(bounded(error))
                    } else {
                        self.unreachable(&error)
                    }
                })?;
                (Box::new(stream), failure)
            }
        };
        let stream: Box<dyn Stream> = match &self.tls {
            None => stream,
            Some((tls, name)) => {
                let secured = tls.connect(name.clone(), stream).await;
                Box::new(secured.map_err(|error| self.unreachable(&error))?)
            }
        };
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(&error))?;
        // It ends with its only request, and whoever reads the answer learns of errors.
        tokio::spawn(async move { drop(connection.await) });
        Ok((sender, failure))
    }
}

/// The port of the debug listener, unless the pod names another one.
const DEBUG_PORT: u16 = 8081;
/// The host of requests through a forwarded port. The listener is for this machine, that is the
/// pod's, and its certificate is for the same name.
const FORWARDED_HOST: &str = "localhost";

/// What it takes to be answered by protected pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The file with the token for protected pages.
    pub token: Option<PathBuf>,
    /// The file with the certificates that sign that of the collector.
    pub authority: Option<PathBuf>,
}

/// How a collector is reached.
#[derive(Clone)]
pub(super) enum Route {
    /// By an address.
    Tcp { host: String, port: u16 },
    /// By the API server, which forwards a port of the pod.
    Pod { api: Api, namespace: String, name: String, port: u16 },
}

/// Where the debug pages of a collector are.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) route: Route,
    /// The `Host` of requests.
    pub(super) authority: String,
    /// What comes before `/debug`.
    pub(super) prefix: String,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(super) token: Option<Arc<str>>,
}

/// Does not show the token.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match &self.route {
            Route::Tcp { .. } => write!(f, "{scheme}://{}{}", self.authority, self.prefix),
            Route::Pod { namespace, name, port, .. } => {
                write!(f, "port {port} of pod {namespace}/{name}")
            }
        }
    }
}

impl Endpoint {
    /// The debug pages at `http://HOST:PORT` or `https://HOST:PORT`, perhaps with the beginning of the path.
    /// Reads the files of the credentials.
    ///
    /// # Errors
    ///
    /// The URL is none of a collector, or a file cannot be used.
    pub fn new(url: &str, credentials: &Credentials) -> Result<Self, String> {
        let wrong = |why: &str| format!("--collector {url}: {why}");
        let uri: Uri = url.parse().map_err(|_| wrong("this is no URL, such as http://127.0.0.1:8081"))?;
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(wrong("a URL begins with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("the URL has no host"))?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(wrong(
                "the URL must have neither a user nor a query; --collector-token-file has the token",
            ));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = if is_https { credentials.tls(&host)? } else { None };
        if is_https && tls.is_none() {
            return Err(wrong("https needs --collector-ca-file, the certificates that sign the collector's"));
        }
        let token = credentials.token()?;
        if token.is_some() && !is_https && !is_loopback(&host) {
            return Err(wrong("a token is sent only over https, or to this machine"));
        }
        Ok(Self {
            authority: authority.to_string(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            route: Route::Tcp { port: authority.port_u16().unwrap_or(if is_https { 443 } else { 80 }), host },
            tls,
            token,
        })
    }

    /// The debug pages of a pod. With certificates to check its own, it is asked by https.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn of_pod(api: &Api, pod: &LabelledPod, credentials: &Credentials) -> Result<Self, String> {
        let port = pod.debug_port.unwrap_or(DEBUG_PORT);
        Ok(Self {
            authority: format!("{FORWARDED_HOST}:{port}"),
            prefix: String::new(),
            tls: credentials.tls(FORWARDED_HOST)?,
            token: credentials.token()?,
            route: Route::Pod {
                api: api.clone(),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                port,
            },
        })
    }
}

impl Credentials {
    fn token(&self) -> Result<Option<Arc<str>>, String> {
        let Some(path) = &self.token else { return Ok(None) };
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{} has no token", path.display()));
        }
        Ok(Some(token.into()))
    }

    /// What makes connections to a host secure; `None` without certificates.
    fn tls(&self, host: &str) -> Result<Option<(TlsConnector, ServerName<'static>)>, String> {
        let Some(path) = &self.authority else { return Ok(None) };
        let failed = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))? {
            let certificate = certificate.map_err(|error| failed(&error))?;
            roots.add(certificate).map_err(|error| failed(&error))?;
        }
        if roots.is_empty() {
            return Err(failed(&"there is no certificate in this file"));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(|error| failed(&error))?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| format!("--collector: {host:?}: {error}"))?;
        Ok(Some((TlsConnector::from(Arc::new(config)), name)))
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Result<Endpoint, String> {
        Endpoint::new(url, &Credentials::default())
    }

    #[test]
    fn a_url_has_a_host_and_perhaps_more() {
        for (url, host, port, prefix) in [
            ("http://127.0.0.1:8081", "127.0.0.1", 8081, ""),
            ("http://localhost", "localhost", 80, ""),
            ("http://[::1]:8081/gc/", "::1", 8081, "/gc"),
        ] {
            let endpoint = at(url).unwrap();
            let Route::Tcp { host: found, port: of } = &endpoint.route else { panic!("{url}") };
            assert_eq!((found.as_str(), *of, endpoint.prefix.as_str()), (host, port, prefix), "{url}");
        }
        assert_eq!(at("http://[::1]:8081/gc/").unwrap().to_string(), "http://[::1]:8081/gc");
    }

    #[test]
    fn other_urls_are_explained() {
        for (url, why) in [
            ("127.0.0.1:8081", "begins with http"),
            ("localhost", "begins with http"),
            ("ftp://localhost", "begins with http"),
            ("http://", "no URL"),
            ("http://me@localhost", "neither a user nor a query"),
            ("http://localhost/?a=b", "neither a user nor a query"),
            ("https://localhost", "--collector-ca-file"),
        ] {
            let error = at(url).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(url), "{error}");
        }
    }

    #[test]
    fn a_token_stays_on_this_machine_or_is_encrypted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let with_token = |url: &str| {
            let credentials = Credentials { token: Some(file.path().to_owned()), authority: None };
            Endpoint::new(url, &credentials)
        };
        assert!(with_token("http://localhost").unwrap_err().to_string().ends_with("has no token"));
        std::fs::write(file.path(), "secret\n").unwrap();
        assert!(with_token("http://10.0.0.1").unwrap_err().to_string().contains("only over https"));
        let endpoint = with_token("http://127.0.0.1:1").unwrap();
        assert_eq!(endpoint.token.as_deref(), Some("secret"));
        assert!(!format!("{endpoint:?}").contains("secret"));
    }
}
