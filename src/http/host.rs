//! The host that a request is for.
//!
//! A web page can give its own name the address of a listener, and the browser of its reader then
//! sends requests there as if they were for the page itself: DNS rebinding. Such a request names the
//! host of the page. So a request must be for an IP address, for `localhost`, or for a name that the
//! settings list.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::HOST;

use kube_gc_core::text::word;

/// The names of the listeners, besides IP addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<[String]>);

impl Hosts {
    /// These names.
    #[must_use]
    pub fn new(names: &[String]) -> Self {
        Self(names.into())
    }

    /// Why a request is for another host. A request without a host is from no browser.
    pub(super) fn refuse(&self, request: &Request) -> Option<String> {
        let in_headers =
            request.headers().get_all(HOST).iter().map(|value| value.to_str().unwrap_or("\u{fffd}"));
        let in_target = request.uri().authority().map(axum::http::uri::Authority::as_str);
        let stranger = in_headers.chain(in_target).find(|host| !self.admits(host))?;
        Some(format!(
            "these pages are not those of {:?}; ask for an IP address or localhost, or add the name to http.hosts",
            word(stranger).to_string()
        ))
    }

    fn admits(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        name.parse::<IpAddr>().is_ok() || is("localhost") || self.0.iter().any(|known| is(known))
    }
}

/// The name or address of `HOST` or `HOST:PORT`, without the dot at the end of a full name.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (address, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    port.is_none_or(is_number).then(|| name.strip_suffix('.').unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn refused(headers: &[&str], target: &str) -> bool {
        let mut request = Request::get(target);
        for host in headers {
            request = request.header(HOST, *host);
        }
        Hosts::new(&["gc.example.com".to_owned()]).refuse(&request.body(Body::empty()).unwrap()).is_some()
    }

    #[test]
    fn addresses_localhost_and_listed_names_are_admitted() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8081",
            "10.1.2.3:8080",
            "[::1]",
            "[2001:db8::1]:8081",
            "localhost",
            "LocalHost:8081",
            "localhost.:8081",
            "gc.example.com",
            "GC.example.com:443",
        ] {
            assert!(!refused(&[host], "/"), "{host}");
            assert!(!refused(&[], &format!("http://{host}/")), "{host}");
        }
        assert!(!refused(&[], "/"), "HTTP/1.0 and HTTP/2 have no such header");
    }

    #[test]
    fn other_names_are_refused() {
        for host in [
            "evil.example.com",
            "evil.example.com:8081",
            "127.0.0.1.evil.example.com",
            "localhost.evil.example.com",
            "evil.example.com:8081:127.0.0.1",
            "sub.gc.example.com",
            "gc.example.com.evil.example",
            "[::1].evil.example.com",
            "[gc.example.com",
            "user@localhost",
            "",
            "::1",
        ] {
            assert!(refused(&[host], "/"), "{host}");
        }
        assert!(refused(&["localhost", "evil.example.com"], "/"), "each host counts");
        assert!(refused(&["localhost"], "http://evil.example.com/"), "the target counts, too");
    }

    #[test]
    fn a_refusal_is_short_and_says_what_to_do() {
        let request = Request::get("/").header(HOST, "x".repeat(10_000)).body(Body::empty()).unwrap();
        let reason = Hosts::default().refuse(&request).unwrap();
        assert!(reason.len() < 1_000 && reason.contains("add the name to http.hosts"), "{reason}");
    }
}
