//! Asks the write gate again, below the client's queue.
//!
//! A kube client hands requests to its transport through a buffer. A write may wait there, so
//! it takes another permit on the other side.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use super::{WriteGate, WritePermit};
use crate::api::clock::Moment;
use crate::telemetry::{DeletionLag, record};

/// Wraps the transport in a [`WriteGateService`].
#[derive(Clone, Debug)]
pub(in crate::api) struct WriteGateLayer(pub WriteGate);

/// Passes reads, and writes that get a permit.
#[derive(Clone, Debug)]
pub(in crate::api) struct WriteGateService<S> {
    gate: WriteGate,
    inner: S,
}

impl<S> Layer<S> for WriteGateLayer {
    type Service = WriteGateService<S>;

    fn layer(&self, inner: S) -> WriteGateService<S> {
        WriteGateService { gate: self.0.clone(), inner }
    }
}

impl<S, B> Service<Request<B>> for WriteGateService<S>
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
            match self.gate.permit() {
                Ok(permit) => {
                    note(&request, &permit);
                    if let Some(lag) = request.extensions().get::<DeletionLag>() {
                        lag.deletion_sent();
                    }
                }
                Err(closed) => {
                    record::gate_refused(closed.reason());
                    return Either::Right(ready(Err(closed.into())));
                }
            }
        }
        Either::Left(self.inner.call(request))
    }
}

/// Logs when a write was permitted. The clock is the same for all processes of a machine, so
/// the logs of several replicas show who wrote when.
fn note<B>(request: &Request<B>, permit: &WritePermit) {
    if let Some((checked, deadline)) = permit.term() {
        let seconds = |moment: Moment| moment.since_origin().as_secs_f64();
        tracing::debug!(
            method = %request.method(),
            path = request.uri().path(),
            checked_seconds = seconds(checked),
            deadline_seconds = seconds(deadline),
            "write is sent"
        );
    }
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt as _, service_fn};

    use std::time::Duration;

    use super::*;
    use crate::api::write_gate::GateClosed;
    use crate::telemetry::Exporter;

    /// The lag ends neither with the decision nor when the request enters the client's queue.
    #[tokio::test(start_paused = true)]
    async fn the_lag_of_a_deletion_ends_when_it_is_handed_to_the_transport_for_the_first_time() {
        let (recorder, exporter) = Exporter::local().unwrap();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let gate = WriteGate::open();
        let mut service =
            WriteGateLayer(gate.clone()).layer(service_fn(|_: Request<()>| async { Ok::<_, BoxError>(()) }));
        let lag = DeletionLag::since(tokio::time::Instant::now());
        let request = || {
            let mut request = Request::builder().method(Method::DELETE).body(()).unwrap();
            request.extensions_mut().insert(lag.clone());
            request
        };
        gate.pause();
        service.ready().await.unwrap().call(request()).await.unwrap_err();
        assert!(lag.open_since().is_some(), "it was not sent");
        gate.resume();
        tokio::time::advance(Duration::from_millis(4)).await;
        service.ready().await.unwrap().call(request()).await.unwrap();
        tokio::time::advance(Duration::from_secs(4)).await;
        service.ready().await.unwrap().call(request()).await.unwrap();
        assert_eq!(lag.open_since(), None);
        let page = exporter.render();
        for line in ["kube_gc_deletion_lag_seconds_count 1", "kube_gc_deletion_lag_seconds_sum 0.004"] {
            assert!(page.lines().any(|found| found == line), "no line {line:?} in:\n{page}");
        }
    }

    #[tokio::test]
    async fn only_writes_need_the_gate() {
        let gate = WriteGate::open();
        let mut service =
            WriteGateLayer(gate.clone()).layer(service_fn(|_: Request<()>| async { Ok::<_, BoxError>(()) }));
        let request = |method| Request::builder().method(method).body(()).unwrap();
        service.ready().await.unwrap().call(request(Method::DELETE)).await.unwrap();
        gate.pause();
        let error = service.ready().await.unwrap().call(request(Method::PATCH)).await.unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&GateClosed::Closed));
        service.ready().await.unwrap().call(request(Method::GET)).await.unwrap();
    }
}
