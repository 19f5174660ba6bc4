//! What every request passes before it comes to a page.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, AUTHORIZATION, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::sync::Semaphore;

use super::access::{Guard, Refused, Token};
use super::connections::{Place, Source};
use super::page::text;
use crate::config::Listener;
use crate::telemetry::Escaped;
use crate::telemetry::record::{HttpRefusal, http_refused};

/// Requests at a time, from their head to the end of the answer; further ones are told
/// to come again. Probes are not counted: they are answered at once, or a crowd before
/// the metrics would have the process killed.
pub(super) const MAX_REQUESTS: usize = 32;

/// Until an answer begins, asking who may have it included: more than a page takes to
/// give up by itself. How long the rest of it may take depends on its length; it has to
/// move.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What Kubernetes' own components answer to anybody, too: whoever probes them has no
/// token.
const OPEN: [&str; 3] = ["/livez", "/readyz", "/healthz"];

/// One listener's entrance.
pub(super) struct Front {
    listener: Listener,
    guard: Option<Arc<Guard>>,
    free: Arc<Semaphore>,
}

impl Front {
    pub(super) fn new(listener: Listener, guard: Option<Arc<Guard>>) -> Self {
        Self { listener, guard, free: Arc::new(Semaphore::new(MAX_REQUESTS)) }
    }

    /// Puts it before the pages.
    pub(super) fn before(self, pages: Router) -> Router {
        pages.layer(from_fn_with_state(Arc::new(self), enter))
    }

    fn is_open(&self, path: &str) -> bool {
        self.listener == Listener::Health && OPEN.contains(&path)
    }

    fn refuse(&self, refusal: HttpRefusal, status: StatusCode, reason: impl Into<String>) -> Response {
        http_refused(self.listener.name(), refusal);
        let header = match status {
            StatusCode::UNAUTHORIZED => {
                Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"kube-gc\"")))
            }
            StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, HeaderValue::from_static("GET, HEAD"))),
            StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, HeaderValue::from_static("1"))),
            _ => None,
        };
        // Some come from the API server or name what was asked for.
        let mut response = text(status, Escaped(reason.into()).to_string());
        response.headers_mut().extend(header);
        response
    }

    /// What can be refused unseen.
    fn refuse_unseen(&self, request: &Request) -> Option<Response> {
        let has_body = !request.body().is_end_stream();
        let mut response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let reason = "these pages are for GET and HEAD alone";
            self.refuse(HttpRefusal::Method, StatusCode::METHOD_NOT_ALLOWED, reason)
        } else if has_body {
            self.refuse(HttpRefusal::Body, StatusCode::PAYLOAD_TOO_LARGE, "these pages take no body")
        } else {
            return None;
        };
        if has_body {
            // It is not read, so nothing can follow it.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Some(response)
    }

    /// The place of the request's connection, if there is room for the request. It counts
    /// until its answer is handed over.
    fn take(&self, request: &mut Request) -> Option<Arc<Place>> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let place = request.extensions_mut().remove::<Arc<Place>>()?;
        place.hold(permit).then_some(place)
    }

    /// Refuses who may not see the page.
    async fn refuse_stranger(&self, token: Option<Token>, path: &str, source: Source) -> Option<Response> {
        let guard = self.guard.as_ref()?;
        let admitted = match token {
            Some(token) => guard.admit(token, path, source).await,
            None => Err(Refused::Unauthenticated(
                "a token of the cluster is needed here: Authorization: Bearer TOKEN".to_owned(),
            )),
        };
        let (refusal, status, reason) = match admitted.err()? {
            Refused::Unauthenticated(reason) => {
                (HttpRefusal::Unauthenticated, StatusCode::UNAUTHORIZED, reason)
            }
            Refused::Forbidden(reason) => (HttpRefusal::Forbidden, StatusCode::FORBIDDEN, reason),
            Refused::Unavailable(reason) => {
                (HttpRefusal::Unavailable, StatusCode::SERVICE_UNAVAILABLE, reason)
            }
            Refused::Busy(reason) => (HttpRefusal::Busy, StatusCode::SERVICE_UNAVAILABLE, reason),
        };
        Some(self.refuse(refusal, status, reason))
    }

    async fn answer(&self, mut request: Request, pages: Next) -> Response {
        if let Some(refused) = self.refuse_unseen(&request) {
            return refused;
        }
        // No page needs it, and none can show it.
        let token = token(&request);
        request.headers_mut().remove(AUTHORIZATION);
        if self.is_open(request.uri().path()) {
            return pages.run(request).await;
        }
        let Some(place) = self.take(&mut request) else {
            return self.refuse(
                HttpRefusal::Busy,
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests at a time; come again",
            );
        };
        if let Some(refused) = self.refuse_stranger(token, request.uri().path(), place.source()).await {
            return refused;
        }
        pages.run(request).await
    }
}

async fn enter(State(front): State<Arc<Front>>, request: Request, pages: Next) -> Response {
    tokio::time::timeout(TIMEOUT, front.answer(request, pages)).await.unwrap_or_else(|_| {
        front.refuse(
            HttpRefusal::Timeout,
            StatusCode::GATEWAY_TIMEOUT,
            format!("no answer from the collector within {} s", TIMEOUT.as_secs()),
        )
    })
}

/// The token of a request that has exactly one.
fn token(request: &Request) -> Option<Token> {
    let mut headers = request.headers().get_all(AUTHORIZATION).iter();
    let (header, None) = (headers.next()?, headers.next()) else { return None };
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Token::new(token.trim_start())).flatten()
}

#[cfg(test)]
mod tests;
