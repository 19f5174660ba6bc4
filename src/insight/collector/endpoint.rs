//! The address of a collector's debug pages, and what it takes to ask them.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::api::{Api, LabelledPod};

/// The port of the debug listener, unless the pod names another one.
const DEBUG_PORT: u16 = 8081;
/// The host of requests through a forwarded port. The listener is for this machine, that is the
/// pod's, and its certificate is for the same name.
const FORWARDED_HOST: &str = "localhost";

/// What a user says about the collector.
#[derive(Clone, Debug, Default)]
pub struct CollectorOptions {
    /// `http://HOST:PORT` or `https://HOST:PORT`, perhaps with the beginning of the path.
    pub url: String,
    /// What it takes to be answered.
    pub credentials: Credentials,
}

/// What it takes to be answered by protected pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The file with the token for protected pages.
    pub token: Option<PathBuf>,
    /// The file with the certificates that sign that of the collector.
    pub authority: Option<PathBuf>,
}

/// Why the options name no collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EndpointError(String);

/// How a collector is reached.
#[derive(Clone)]
pub(super) enum Route {
    /// By an address.
    Tcp {
        /// Its host.
        host: String,
        /// Its port.
        port: u16,
    },
    /// By the API server, which forwards a port of the pod.
    Pod {
        /// The client of the API server.
        api: Api,
        /// The namespace of the pod.
        namespace: String,
        /// Its name.
        name: String,
        /// The port.
        port: u16,
    },
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
    /// Reads the options and the files that they name.
    ///
    /// # Errors
    ///
    /// The URL is none of a collector, or a file cannot be used.
    pub fn new(options: &CollectorOptions) -> Result<Self, EndpointError> {
        let wrong = |why: &str| EndpointError(format!("--collector {}: {why}", options.url));
        let uri: Uri =
            options.url.parse().map_err(|_| wrong("this is no URL, such as http://127.0.0.1:8081"))?;
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
        let tls = match (is_https, options.credentials.tls(&host)) {
            (false, _) => None,
            (true, Some(tls)) => Some(tls?),
            (true, None) => {
                return Err(wrong(
                    "https needs --collector-ca-file, the certificates that sign the collector's",
                ));
            }
        };
        let token = options.credentials.token()?;
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
    pub fn of_pod(api: &Api, pod: &LabelledPod, credentials: &Credentials) -> Result<Self, EndpointError> {
        let port = pod.debug_port.unwrap_or(DEBUG_PORT);
        Ok(Self {
            authority: format!("{FORWARDED_HOST}:{port}"),
            prefix: String::new(),
            tls: credentials.tls(FORWARDED_HOST).transpose()?,
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
    fn token(&self) -> Result<Option<Arc<str>>, EndpointError> {
        let Some(path) = &self.token else { return Ok(None) };
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| EndpointError(format!("{}: {error}", path.display())))?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(EndpointError(format!("{} has no token", path.display())));
        }
        Ok(Some(token.into()))
    }

    /// What makes connections to a host secure; `None` without certificates.
    fn tls(&self, host: &str) -> Option<Result<(TlsConnector, ServerName<'static>), EndpointError>> {
        self.authority.as_deref().map(|path| tls(path, host))
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn tls(path: &Path, host: &str) -> Result<(TlsConnector, ServerName<'static>), EndpointError> {
    let failed = |error: &dyn fmt::Display| EndpointError(format!("{}: {error}", path.display()));
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
    let name = name.map_err(|error| EndpointError(format!("--collector: {host:?}: {error}")))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::new(&CollectorOptions { url: url.to_owned(), ..CollectorOptions::default() })
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
            Endpoint::new(&CollectorOptions { url: url.to_owned(), credentials })
        };
        assert!(with_token("http://localhost").unwrap_err().to_string().ends_with("has no token"));
        std::fs::write(file.path(), "secret\n").unwrap();
        assert!(with_token("http://10.0.0.1").unwrap_err().to_string().contains("only over https"));
        let endpoint = with_token("http://127.0.0.1:1").unwrap();
        assert_eq!(endpoint.token.as_deref(), Some("secret"));
        assert!(!format!("{endpoint:?}").contains("secret"));
    }
}
