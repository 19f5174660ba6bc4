//! Proxies between here and the API server, by the rules of Go's clients.

use std::io;
use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use tokio::net::TcpStream;
use tokio_rustls::rustls::ClientConfig;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

use super::CredentialsError;

/// What carries the bytes to the API server: a socket, or a tunnel.
pub type Carrier = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Opens sockets or tunnels.
pub type Dial = BoxCloneSyncService<Uri, Carrier, io::Error>;

/// The proxy for a server: that of the kubeconfig, else that of the environment.
pub fn choose(configured: Option<&str>, server: &Uri) -> Result<Option<Uri>, CredentialsError> {
    if let Some(url) = configured.filter(|url| !url.is_empty()) {
        return parse(url, "proxy-url of the kubeconfig").map(Some);
    }
    let is_https = server.scheme() == Some(&Scheme::HTTPS);
    let names = if is_https { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let Some(url) = first(names) else { return Ok(None) };
    let exceptions = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let port = server.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    if is_exempt(&exceptions, server.host().unwrap_or_default(), port) {
        return Ok(None);
    }
    parse(&url, names[0]).map(Some)
}

fn first(names: [&str; 2]) -> Option<String> {
    names.into_iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// The URL may contain a password, so no message quotes it.
fn parse(url: &str, origin: &str) -> Result<Uri, CredentialsError> {
    let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let unusable =
        || CredentialsError::new(format!("the proxy ({origin}) is not a URL such as http://host:port"));
    let uri: Uri = whole.parse().map_err(|_| unusable())?;
    match uri.scheme_str() {
        Some("http" | "https" | "socks5" | "socks5h") if uri.host().is_some() => Ok(uri),
        Some(_) | None => Err(unusable()),
    }
}

/// Whether a server is reached without the proxy of the environment: it is this machine, or a part of
/// `NO_PROXY` names it.
fn is_exempt(exceptions: &str, host: &str, port: u16) -> bool {
    let host = bare(host).trim_end_matches('.').to_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    exceptions.split(',').map(|part| part.trim().to_lowercase()).any(|part| {
        if part == "*" {
            return true;
        }
        if let Ok(network) = part.parse::<IpNet>() {
            return address.is_some_and(|address| network.contains(&address));
        }
        let (name, wanted) = match part.rsplit_once(':') {
            Some((name, wanted)) if bare(&part).parse::<IpAddr>().is_err() => (name, wanted.parse().ok()),
            Some(_) | None => (&*part, Some(port)),
        };
        let (name, is_port) = (bare(name), wanted == Some(port));
        if let Ok(exempt) = name.parse::<IpAddr>() {
            return is_port && address == Some(exempt);
        }
        let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
        is_port
            && match name.strip_prefix('.') {
                _ if name.is_empty() => false,
                Some(_) => host.ends_with(name),
                None => host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
            }
    })
}

/// A host without the brackets of IPv6.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Opens sockets to the API server, or tunnels through the proxy.
pub fn dial(proxy: Option<&Uri>, tcp: HttpConnector, tls: ClientConfig) -> Result<Dial, BoxError> {
    let Some(proxy) = proxy else {
        return Ok(Dial::new(tcp.map_response(MaybeHttpsStream::Http).map_err(io::Error::other)));
    };
    let (user, address) = address(proxy)?;
    if proxy.scheme_str().is_some_and(|scheme| scheme.starts_with("socks5")) {
        // The proxy looks names up.
        let socks = SocksV5::new(address, tcp);
        let socks = match user {
            Some((name, password)) => socks.with_auth(name, password),
            None => socks,
        };
        return Ok(Dial::new(socks.map_response(MaybeHttpsStream::Http).map_err(io::Error::other)));
    }
    let to_proxy = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
    let tunnel = Tunnel::new(address, to_proxy.wrap_connector(tcp));
    let tunnel = match user {
        Some((name, password)) => {
            let basic = BASE64_STANDARD.encode(format!("{name}:{password}"));
            tunnel.with_auth(HeaderValue::try_from(format!("Basic {basic}"))?)
        }
        None => tunnel,
    };
    Ok(Dial::new(tunnel.map_err(io::Error::other)))
}

/// The user and password in the URL of a proxy, and its URL without them but with a port.
fn address(proxy: &Uri) -> Result<(Option<(String, String)>, Uri), BoxError> {
    let authority = proxy.authority().map_or("", Authority::as_str);
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let user = user.map(|user| user.split_once(':').unwrap_or((user, "")));
    let is_socks = proxy.scheme_str().is_some_and(|scheme| scheme.starts_with("socks5"));
    let port = if is_socks && proxy.port().is_none() { ":1080" } else { "" };
    let scheme = proxy.scheme_str().unwrap_or("http");
    let address = format!("{scheme}://{host}{port}").parse()?;
    Ok((user.map(|(name, password)| (decoded(name), decoded(password))), address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of golang.org/x/net/http/httpproxy's documentation.
    #[test]
    fn exceptions_are_those_of_go() {
        for (exceptions, host, exempt) in [
            ("", "api.example", false),
            ("", "localhost", true),
            ("", "127.0.0.9", true),
            ("", "[::1]", true),
            ("*", "api.example", true),
            (" other , api.example ", "api.example", true),
            ("example", "api.example", true),
            ("example", "notexample", false),
            (".example", "api.example", true),
            (".api.example", "api.example", false),
            ("*.example", "api.example", true),
            ("*.api.example", "api.example", false),
            ("API.Example", "api.EXAMPLE.", true),
            ("api.example:6443", "api.example", true),
            ("api.example:443", "api.example", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/8", "api.example", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3:6443", "10.1.2.3", true),
            ("10.1.2.3:1", "10.1.2.3", false),
            ("fd00::/8", "[fd00::1]", true),
            ("fd00::1", "[fd00::1]", true),
            ("[fd00::1]:6443", "[fd00::1]", true),
            ("[fd00::1]:1", "[fd00::1]", false),
            (",,:", "api.example", false),
        ] {
            assert_eq!(is_exempt(exceptions, host, 6443), exempt, "{exceptions:?} {host:?}");
        }
    }

    #[test]
    fn a_proxy_is_a_url_with_a_user_and_a_port() {
        let parsed = |url: &str| address(&parse(url, "a test").unwrap()).unwrap();
        let user = Some(("a@b".to_owned(), "c:d".to_owned()));
        assert_eq!(parsed("http://a%40b:c%3Ad@proxy:3128"), (user, "http://proxy:3128/".parse().unwrap()));
        assert_eq!(parsed("proxy:3128"), (None, "http://proxy:3128/".parse().unwrap()));
        assert_eq!(parsed("socks5://[::1]"), (None, "socks5://[::1]:1080/".parse().unwrap()));
        for wrong in ["ftp://u:SECRET@proxy", "http://u:SECRET@", "http://u:SEC RET@proxy"] {
            let error = parse(wrong, "a test").unwrap_err().to_string();
            assert!(error.contains("the proxy (a test) is not a URL") && !error.contains("SEC"), "{error}");
        }
    }
}
