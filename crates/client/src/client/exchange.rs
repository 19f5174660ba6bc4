//! One request and its answer: read whole, or opened as a list or a watch.

use std::future::pending;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http::Response;
use http::header::DATE;
use http::response::Parts;
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use kube::client::Body;
use tokio::time::{Instant, timeout, timeout_at};

use super::Api;
use crate::call::{Answer, Call};
use crate::connection::{CredentialsError, Renewed};
use crate::connection_error::{error_chain, is_caused_by_connection, is_connection_error};
use crate::error::{ApiError, Effect, ErrorClass};
use crate::restore_fence::not_sent;
use crate::settings::Verb;
use crate::write_gate::{GateClosed, WritePermit};
use kube_gc_decode::{Encoding, Status};
use kube_gc_observe::telemetry::{DeletionLag, record};

/// The longest page of a list or discovery document; that of a big cluster is a few MiB.
const LONGEST_ANSWER: usize = 64 << 20;

/// The longest answer about a single object. etcd accepts at most a few MiB, which take
/// several times as much space in JSON.
const LONGEST_OBJECT: usize = 16 << 20;

impl Api {
    /// Sends a request and reads the answer.
    ///
    /// Box this future. It is large, and every future that contains it would grow by its size
    /// or twice that, and would be moved whole when it becomes a task.
    pub async fn exchange(&self, call: Call<'_>) -> Result<Answer, ApiError> {
        let (mut parts, mut body) = self.send(&call).await?;
        // The server did nothing. The gate and the fence decide anew.
        if parts.extensions.get::<Renewed>().is_some() {
            (parts, body) = self.send(&call).await?;
        }
        let (code, encoding) = (parts.status.as_u16(), Encoding::of(&parts.headers));
        if !parts.status.is_success() {
            return Err(call.refusal(code, &parts.headers, &body));
        }
        if let Some(status) = Status::of_failure(&body) {
            return Err(call.contradiction(code, &status));
        }
        let date = parts.headers.get(DATE).cloned();
        Ok(Answer { code, encoding, body, date, action: call.action, target: call.described() })
    }

    /// Sends a request, after asking the gate if it is a write, and reads the response,
    /// whatever its code.
    async fn send(&self, call: &Call<'_>) -> Result<(Parts, Bytes), ApiError> {
        let mut request = call.request(self.0.settings.compressed_lists)?;
        // Nothing may wait between this permit and the transport.
        let permit = self.write_permit(call).await?;
        let limit = permit.map_or(self.1.limit, |permit| permit.limit(self.1.limit));
        let connection = capture_connection(&mut request);
        let start = Instant::now();
        let exchange = timeout(limit, async {
            let response = self.0.clients.unary.send(request, permit).await.map_err(|error| {
                if is_connection_error(&error) {
                    self.0.restore_fence.connection_lost(call.resource);
                }
                transport(call, &error)
            });
            let (parts, body) = response?.into_parts();
            let body = self.read_body(call, body).await?;
            Ok::<_, ApiError>((parts, body))
        });
        let answer = tokio::select! {
            biased;
            error = self.overtaken(call, permit, connection) => Err(error),
            answer = exchange => {
                let answer = answer.unwrap_or_else(|_| Err(too_slow(call, limit)));
                self.note_reachable(call, start, answer.as_ref().map(|(parts, _)| parts.status.as_u16()));
                answer
            }
        };
        let code = answer.as_ref().ok().map(|(parts, _)| parts.status.as_u16());
        let is_sent = answer.as_ref().err().is_none_or(|error| error.effect() == Effect::Unknown);
        if let Some(lag) = DeletionLag::current().filter(|_| call.verb == Verb::Delete && is_sent) {
            lag.deletion_sent_at(start);
        }
        self.observe(call.verb, call.resource, code, start);
        answer
    }

    /// The permit of a request that writes; `None` for one that only reads.
    ///
    /// # Errors
    ///
    /// The gate is closed, or the restore fence holds the write back.
    pub async fn write_permit(&self, call: &Call<'_>) -> Result<Option<WritePermit>, ApiError> {
        if !call.writes() {
            return Ok(None);
        }
        // First of all: without a permit, the fence sends no request of its own. If the fence waits, the
        // write is not sent.
        let permit = self.0.gate.permit().map_err(|closed| {
            record::gate_refused(closed.reason());
            call.error(class_of(closed), closed.to_string(), None)
        })?;
        // An event deletes and changes nothing, so an outdated decision does no harm.
        if call.verb != Verb::Create {
            self.check_restore_fence(call).await?;
        }
        Ok(Some(permit))
    }

    /// Resolves when a write must not be waited for any longer: its permit has expired, or watches broke
    /// after it was decided and it has no connection yet. A connection that is made afterwards may lead to
    /// another store. A request that has one is on its way to the right store, and its answer is worth
    /// waiting for.
    async fn overtaken(
        &self,
        call: &Call<'_>,
        permit: Option<WritePermit>,
        mut connection: CaptureConnection,
    ) -> ApiError {
        let Some(permit) = permit else { return pending().await };
        let superseded = async {
            let Some(number) = self.1.decided_under else { return pending().await };
            self.0.restore_fence.superseded(number).await;
            let is_known =
                connection.wait_for_connection_metadata().now_or_never().as_deref().map(Option::is_some);
            match is_known {
                None => not_sent(call),
                // The transport does not tell when a request gets its connection.
                Some(false) => cancelled(call, "watches were interrupted after the decision"),
                Some(true) => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.0.gate.expired(permit) => cancelled(call, "this replica has lost the Lease"),
            error = superseded => error,
        }
    }

    /// Reads a response's body to its end, up to a limit.
    async fn read_body(&self, call: &Call<'_>, mut body: Body) -> Result<Bytes, ApiError> {
        let longest = if call.is_about_an_object() { LONGEST_OBJECT } else { LONGEST_ANSWER };
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                if is_caused_by_connection(&error) {
                    self.0.restore_fence.connection_lost(call.resource);
                }
                call.error(ErrorClass::Transient, error_chain(&error), None)
            })?;
            if let Ok(data) = frame.into_data() {
                if whole.len() + data.len() > longest {
                    let message = format!("the response is longer than {longest} bytes");
                    return Err(call.error(ErrorClass::TooLong, message, None));
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok(whole.freeze())
    }
}

impl Api {
    /// Sends the request of a list or a watch and waits for the response's head. An error
    /// response is read to its end, within the same time limit. A list that begins is not observed:
    /// the caller does that at its end.
    pub async fn open(&self, call: Call<'_>) -> Result<Response<Body>, ApiError> {
        let clients = &self.0.clients;
        let client = if call.verb == Verb::Watch { &clients.watches } else { &clients.lists };
        let request = call.request(self.0.settings.compressed_lists)?;
        let sending = async { client.send(request, None).await.map_err(|error| transport(&call, &error)) };
        let limit = self.0.settings.request_timeout;
        let start = Instant::now();
        let deadline = start + limit;
        let response = timeout_at(deadline, sending).await.unwrap_or_else(|_| Err(too_slow(&call, limit)));
        self.note_reachable(&call, start, response.as_ref().map(|response| response.status().as_u16()));
        let code = response.as_ref().ok().map(|response| response.status().as_u16());
        let is_ok = response.as_ref().is_ok_and(|response| response.status().is_success());
        if !is_ok || call.verb == Verb::Watch {
            self.observe(call.verb, call.resource, code, start);
        }
        let response = response?;
        if is_ok {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = timeout_at(deadline, self.read_body(&call, body))
            .await
            .unwrap_or_else(|_| Err(too_slow(&call, limit)))?;
        Err(call.refusal(parts.status.as_u16(), &parts.headers, &body))
    }
}

fn too_slow(call: &Call<'_>, limit: Duration) -> ApiError {
    call.error(ErrorClass::Transient, format!("no answer within {limit:?}"), None)
}

/// The request was cancelled while it was in flight, so it may have taken effect.
fn cancelled(call: &Call<'_>, why: &str) -> ApiError {
    call.error(ErrorClass::Transient, format!("cancelled while in flight: {why}"), None)
}

/// The client's transport failed.
fn transport(call: &Call<'_>, error: &kube::Error) -> ApiError {
    let class = match error {
        // Fetching credentials failed, not the request.
        kube::Error::Service(cause) if cause.is::<CredentialsError>() => ErrorClass::Denied,
        kube::Error::Service(cause) => match cause.downcast_ref::<GateClosed>() {
            Some(closed) => class_of(*closed),
            None => ErrorClass::Transient,
        },
        _ => ErrorClass::Transient,
    };
    call.error(class, error_chain(error), None)
}

const fn class_of(closed: GateClosed) -> ErrorClass {
    match closed {
        GateClosed::DryRun => ErrorClass::DryRun,
        GateClosed::Closed | GateClosed::Standby | GateClosed::Expired => ErrorClass::GateClosed,
    }
}
