//! The write gate once more, below the client's queue.
//!
//! A kube client hands requests to its transport through a buffer. A write may
//! wait there, so the gate is asked again on the other side of it.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use super::clock::Moment;
use super::gate::{Permit, WriteGate};
use crate::telemetry::record;

/// Puts a [`GateService`] before the transport.
#[derive(Clone, Debug)]
pub(super) struct GateLayer(pub WriteGate);

/// Lets reads through, and writes while the gate is open.
#[derive(Clone, Debug)]
pub(super) struct GateService<S> {
    gate: WriteGate,
    inner: S,
}

impl<S> Layer<S> for GateLayer {
    type Service = GateService<S>;

    fn layer(&self, inner: S) -> GateService<S> {
        GateService { gate: self.0.clone(), inner }
    }
}

impl<S, B> Service<Request<B>> for GateService<S>
where
    S: Service<Request<B>, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, Ready<Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.method() != Method::GET {
            match self.gate.check() {
                Ok(permit) => note(&request, &permit),
                Err(closed) => {
                    record::gate_refused(closed.reason());
                    return Either::Right(ready(Err(closed.into())));
                }
            }
        }
        Either::Left(self.inner.call(request))
    }
}

/// So that it can be proved afterwards who wrote when: the clock is the same for all
/// processes of a machine.
fn note<B>(request: &Request<B>, permit: &Permit) {
    if let Some((checked, deadline)) = permit.term() {
        let micros = |moment: Moment| moment.since_origin().as_micros();
        tracing::debug!(
            method = %request.method(),
            path = request.uri().path(),
            checked_us = micros(checked),
            deadline_us = micros(deadline),
            "write leaves"
        );
    }
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::api::gate::GateClosed;

    #[tokio::test]
    async fn only_writes_need_the_gate() {
        let gate = WriteGate::open();
        let mut service =
            GateLayer(gate.clone()).layer(service_fn(|_: Request<()>| async { Ok::<_, BoxError>(()) }));
        let request = |method| Request::builder().method(method).body(()).unwrap();
        service.ready().await.unwrap().call(request(Method::DELETE)).await.unwrap();
        gate.pause();
        let error = service.ready().await.unwrap().call(request(Method::PATCH)).await.unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&GateClosed::Closed));
        service.ready().await.unwrap().call(request(Method::GET)).await.unwrap();
    }
}
