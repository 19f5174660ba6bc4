//! The checks that every request passes before it reaches a page.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, AUTHORIZATION, CONNECTION, HOST, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::connections::ConnectionSlot;
use super::page::{TIMEOUT, text};
use super::ui;
use crate::access::{Authorizer, Source, Token};
use crate::telemetry::Escaped;
use crate::telemetry::record::{HttpRefusal, http_refused};
use kube_gc_config::Listener;
use kube_gc_core::text::word;

/// The most requests in flight, from the headers to the end of the response. Further ones
/// are rejected. Probes do not count: if many scrapes could delay them, the kubelet would
/// kill the process.
pub(super) const MAX_REQUESTS: usize = 32;

/// The path of the page that streams.
pub const STREAM: &str = "/debug/stream";

/// The most streams at a time. They do not count as requests.
pub(super) const MAX_STREAMS: usize = 8;

/// The end of the listener. Each request has it among its extensions.
#[derive(Clone, Debug)]
pub struct Closing(pub CancellationToken);

/// Paths that need no authorization, as in Kubernetes' own components: the kubelet's probes
/// carry no token.
const OPEN: [&str; 3] = ["/livez", "/readyz", "/healthz"];

/// The middleware of one listener.
pub(super) struct Middleware {
    listener: Listener,
    authorizer: Option<Arc<Authorizer>>,
    hosts: Hosts,
    free: Arc<Semaphore>,
    /// The streams that may still begin.
    free_streams: Arc<Semaphore>,
}

impl Middleware {
    pub(super) fn new(listener: Listener, authorizer: Option<Arc<Authorizer>>, hosts: Hosts) -> Self {
        let free = Arc::new(Semaphore::new(MAX_REQUESTS));
        Self { listener, authorizer, hosts, free, free_streams: Arc::new(Semaphore::new(MAX_STREAMS)) }
    }

    /// Adds the checks to the pages.
    pub(super) fn wrap(self, pages: Router) -> Router {
        pages.layer(from_fn_with_state(Arc::new(self), enter))
    }

    fn is_open(&self, path: &str) -> bool {
        self.listener == Listener::Health && OPEN.contains(&path)
    }

    fn refuse(&self, refusal: HttpRefusal, reason: impl Into<String>) -> Response {
        http_refused(self.listener.name(), refusal);
        let header = match refusal {
            HttpRefusal::Unauthenticated => Some((WWW_AUTHENTICATE, "Bearer realm=\"kube-gc\"")),
            HttpRefusal::Method => Some((ALLOW, "GET, HEAD")),
            HttpRefusal::Busy | HttpRefusal::Unavailable => Some((RETRY_AFTER, "1")),
            _ => None,
        };
        // The reason may contain text from the API server or from the request.
        let mut response = text(status(refusal), Escaped(reason.into()).to_string());
        let header = header.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(header);
        response
    }

    /// Rejects requests by their method, host or body.
    fn refuse_invalid(&self, request: &Request) -> Option<Response> {
        let has_body = !request.body().is_end_stream();
        let mut response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
            self.refuse(HttpRefusal::Method, "these pages support only GET and HEAD")
        } else if let Some(reason) = self.hosts.refuse(request) {
            self.refuse(HttpRefusal::Host, reason)
        } else if has_body {
            self.refuse(HttpRefusal::Body, "these pages accept no body")
        } else {
            return None;
        };
        if has_body {
            // The body is not read, so no other request can follow it.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Some(response)
    }

    /// The slot of the request's connection, if there is room for the request. The request
    /// counts until its response is flushed. Streams are counted apart, because each lasts long.
    fn take(&self, request: &mut Request) -> Option<Arc<ConnectionSlot>> {
        let is_stream = self.listener == Listener::Debug && request.uri().path() == STREAM;
        let free = if is_stream { &self.free_streams } else { &self.free };
        let permit = Arc::clone(free).try_acquire_owned().ok()?;
        let slot = request.extensions_mut().remove::<Arc<ConnectionSlot>>()?;
        slot.hold(permit).then_some(slot)
    }

    /// Rejects requests that are not authorized.
    async fn refuse_unauthorized(
        &self,
        token: Option<Token>,
        path: &str,
        source: Source,
    ) -> Option<Response> {
        let authorizer = self.authorizer.as_ref()?;
        let admitted = match token {
            Some(token) => authorizer.admit(&token, path, source).await,
            None => {
                let why = "this page requires a token of the cluster: Authorization: Bearer TOKEN";
                Err((HttpRefusal::Unauthenticated, why.to_owned()))
            }
        };
        admitted.err().map(|(refusal, reason)| self.refuse(refusal, reason))
    }

    async fn answer(&self, mut request: Request, pages: Next) -> Response {
        if let Some(refused) = self.refuse_invalid(&request) {
            return refused;
        }
        // Pages do not need the token, so none can show it by mistake.
        let token = token(&request);
        request.headers_mut().remove(AUTHORIZATION);
        if self.is_open(request.uri().path()) {
            return pages.run(request).await;
        }
        let Some(slot) = self.take(&mut request) else {
            return self.refuse(HttpRefusal::Busy, "too many requests or streams in flight; retry later");
        };
        // A browser has no token before the page has asked for one.
        let is_static = self.listener == Listener::Debug && ui::is_static(&request);
        if !is_static
            && let Some(refused) = self.refuse_unauthorized(token, request.uri().path(), slot.source()).await
        {
            return refused;
        }
        pages.run(request).await
    }
}

async fn enter(State(middleware): State<Arc<Middleware>>, request: Request, pages: Next) -> Response {
    tokio::time::timeout(TIMEOUT, middleware.answer(request, pages)).await.unwrap_or_else(|_| {
        let why = format!("the collector did not respond within {} s", TIMEOUT.as_secs());
        middleware.refuse(HttpRefusal::Timeout, why)
    })
}

const fn status(refusal: HttpRefusal) -> StatusCode {
    match refusal {
        HttpRefusal::Handshake | HttpRefusal::Silent | HttpRefusal::Head => StatusCode::BAD_REQUEST,
        HttpRefusal::Host => StatusCode::MISDIRECTED_REQUEST,
        HttpRefusal::Method => StatusCode::METHOD_NOT_ALLOWED,
        HttpRefusal::Body => StatusCode::PAYLOAD_TOO_LARGE,
        HttpRefusal::Unauthenticated => StatusCode::UNAUTHORIZED,
        HttpRefusal::Forbidden => StatusCode::FORBIDDEN,
        HttpRefusal::Busy | HttpRefusal::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        HttpRefusal::Timeout => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// The bearer token of a request with exactly one `Authorization` header.
fn token(request: &Request) -> Option<Token> {
    let mut headers = request.headers().get_all(AUTHORIZATION).iter();
    let (header, None) = (headers.next()?, headers.next()) else { return None };
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Token::new(token.trim_start())).flatten()
}

/// The names of the listeners, besides IP addresses and `localhost`.
///
/// A web page can give its own name the address of a listener, and the browser of its reader then
/// sends requests there as if they were for the page itself: DNS rebinding. Such a request names the
/// host of the page. So a request must be for an IP address, for `localhost`, or for a name that the
/// settings list.
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
mod tests;
