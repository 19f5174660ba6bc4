//! The address of a collector's debug pages, and what it takes to ask them.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// What a user says about the collector.
#[derive(Clone, Debug, Default)]
pub struct CollectorOptions {
    /// `http://HOST:PORT` or `https://HOST:PORT`, perhaps with the beginning of the path.
    pub url: String,
    /// The file with the token for protected pages.
    pub token: Option<PathBuf>,
    /// The file with the certificates that sign that of the collector.
    pub authority: Option<PathBuf>,
}

/// Why the options name no collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EndpointError(String);

/// Where the debug pages of a collector are.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
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
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
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
        let tls = if is_https { Some(tls(options, &host)?) } else { None };
        let token = options.token.as_ref().map(|path| {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| EndpointError(format!("{}: {error}", path.display())))?;
            let token = text.trim();
            let is_fine = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            if is_fine {
                Ok(token.into())
            } else {
                Err(EndpointError(format!("{} has no token", path.display())))
            }
        });
        let token: Option<Arc<str>> = token.transpose()?;
        if token.is_some() && !is_https && !is_loopback(&host) {
            return Err(wrong("a token is sent only over https, or to this machine"));
        }
        Ok(Self {
            port: authority.port_u16().unwrap_or(if is_https { 443 } else { 80 }),
            authority: authority.to_string(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            host,
            tls,
            token,
        })
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn tls(options: &CollectorOptions, host: &str) -> Result<(TlsConnector, ServerName<'static>), EndpointError> {
    let wrong = |why: String| EndpointError(format!("--collector {}: {why}", options.url));
    let Some(path) = &options.authority else {
        return Err(wrong(
            "https needs --collector-ca-file, the certificates that sign the collector's".to_owned(),
        ));
    };
    let failed = |error: &dyn fmt::Display| EndpointError(format!("{}: {error}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))? {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    if roots.is_empty() {
        return Err(failed(&"there is no certificate in this file"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| failed(&error))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|error| wrong(error.to_string()))?;
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
            let found = (endpoint.host.as_str(), endpoint.port, endpoint.prefix.as_str());
            assert_eq!(found, (host, port, prefix), "{url}");
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
            let token = Some(file.path().to_owned());
            Endpoint::new(&CollectorOptions { url: url.to_owned(), token, ..CollectorOptions::default() })
        };
        assert!(with_token("http://localhost").unwrap_err().to_string().ends_with("has no token"));
        std::fs::write(file.path(), "secret\n").unwrap();
        assert!(with_token("http://10.0.0.1").unwrap_err().to_string().contains("only over https"));
        let endpoint = with_token("http://127.0.0.1:1").unwrap();
        assert_eq!(endpoint.token.as_deref(), Some("secret"));
        assert!(!format!("{endpoint:?}").contains("secret"));
    }
}
