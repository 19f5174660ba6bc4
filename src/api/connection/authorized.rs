//! Requests with the credentials of the moment.

use std::error::Error;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, USER_AGENT as USER_AGENT_HEADER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use kube::client::Body;
use tokio_rustls::rustls::{self, AlertDescription};
use tower::{BoxError, Service, ServiceExt as _};

use super::credentials::{Credentials, State};
use crate::api::settings::USER_AGENT;

/// Marks an answer to a write: the credentials were refused, and there are others now. The write gate
/// and the restore fence have to be asked before it is sent again.
#[derive(Clone, Copy, Debug)]
pub struct Renewed;

/// Adds credentials to requests. When the server refuses them, it reads them again, and repeats a
/// request that only reads.
#[derive(Clone, Debug)]
pub struct Authorized<S> {
    inner: S,
    credentials: Arc<Credentials>,
    /// Whether writes are repeated, too: nothing has to be asked before.
    repeats_writes: bool,
}

impl<S> Authorized<S> {
    pub const fn new(inner: S, credentials: Arc<Credentials>, repeats_writes: bool) -> Self {
        Self { inner, credentials, repeats_writes }
    }
}

impl<S, B> Service<Request<Body>> for Authorized<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that is ready, not its clone.
        let clone = self.inner.clone();
        let mut service = mem::replace(&mut self.inner, clone);
        let credentials = Arc::clone(&self.credentials);
        let may_repeat = self.repeats_writes || request.method() == Method::GET;
        Box::pin(async move {
            let state = credentials.current().await?;
            let copy = copy(&request);
            let answer = service.call(with(request, &state)).await;
            let is_refused = match &answer {
                Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
                Err(error) => is_about_certificates(&**error),
            };
            if !is_refused {
                return answer;
            }
            let Some(state) = credentials.refused(state.version).await else { return answer };
            match copy.filter(|_| may_repeat) {
                Some(copy) => service.ready().await?.call(with(copy, &state)).await,
                None => answer.map(|mut answer| {
                    answer.extensions_mut().insert(Renewed);
                    answer
                }),
            }
        })
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

/// `None` if the body is not in memory.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

/// Whether one side has rejected the other's certificate, so that nothing was sent or read.
fn is_about_certificates(error: &(dyn Error + 'static)) -> bool {
    use AlertDescription as Alert;
    let mut next = Some(error);
    while let Some(cause) = next {
        match cause.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(_)) => return true,
            Some(rustls::Error::AlertReceived(alert)) => {
                return matches!(
                    alert,
                    Alert::BadCertificate
                        | Alert::UnsupportedCertificate
                        | Alert::CertificateRevoked
                        | Alert::CertificateExpired
                        | Alert::CertificateUnknown
                        | Alert::UnknownCA
                        | Alert::AccessDenied
                        | Alert::CertificateRequired
                );
            }
            Some(_) | None => {}
        }
        // The source of an I/O error is that of the error in it.
        next = match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => cause.source(),
        };
    }
    false
}
