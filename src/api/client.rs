//! One request and its answer.

mod call;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use http::response::Parts;
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use kube::client::{AuthError, Body};
use tokio::time::{Instant, timeout, timeout_at};

use super::bulkhead::{Bulkhead, End};
use super::concurrency::{ConcurrencyLimits, SharedSlot, Signal, Slot, when_it_hangs};
use super::connection_error;
use super::decode::{Encoding, Status};
use super::discovery::Watchable;
use super::error::{ApiError, ErrorClass, says_too_busy};
use super::high_water::HighWater;
use super::jitter::Jitter;
use super::rate_limiter::RateLimiter;
use super::reachability::Reachability;
use super::restore_fence::RestoreFence;
use super::settings::{ApiSettings, Verb};
use super::strategic_merge::StrategicMergeSupport;
use super::write_encoding::WriteEncodings;
use super::write_gate::{GateClosed, WriteGate, WritePermit};
use crate::telemetry::{DeletionLag, record};
use kube_gc_core::object::GroupResource;

pub(super) use call::Call;

/// Stands for a body that a message cannot quote.
pub(super) const NO_TEXT: &[u8] = b"{}";

/// No page of a list is longer than this, and no discovery document: that of a big cluster
/// is a few MiB.
const LONGEST_ANSWER: usize = 64 << 20;

/// No answer about a single object is longer than this. etcd takes none over a few MiB,
/// which are several times as many in JSON.
const LONGEST_OBJECT: usize = 16 << 20;

/// The way to one API server. Clones are cheap and share everything.
#[derive(Clone)]
pub struct Api(Arc<Inner>, Manner);

/// What an API server is spoken to with. No connection is shared between these: whoever
/// opens one also carries it, and lists and watches are read on other threads than
/// requests about single objects. None may retry by itself.
#[derive(Clone)]
pub struct Clients {
    /// For all that is answered in one piece.
    pub unary: kube::Client,
    /// For lists. It should decompress.
    pub lists: kube::Client,
    /// For watches.
    pub watches: kube::Client,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

impl From<kube::Client> for Clients {
    fn from(client: kube::Client) -> Self {
        Self { unary: client.clone(), lists: client.clone(), watches: client }
    }
}

/// How requests go this way.
#[derive(Clone, Debug)]
struct Manner {
    pace: Pace,
    /// An answer may take so long.
    limit: Duration,
    /// The latest disturbance when what is written was decided.
    decided_under: Option<u64>,
}

/// When requests about single objects wait for their turn.
#[derive(Clone, Debug)]
enum Pace {
    /// Each right before it is sent.
    Each,
    /// They have waited, and have this slot.
    Reserved(SharedSlot),
}

struct Inner {
    clients: Clients,
    settings: ApiSettings,
    gate: WriteGate,
    high_water: HighWater,
    restore_fence: RestoreFence,
    rate_limiter: RateLimiter,
    concurrency: ConcurrencyLimits,
    bulkhead: Bulkhead,
    reachability: Reachability,
    jitter: Jitter,
    strategic_merge: StrategicMergeSupport,
    write_encodings: WriteEncodings,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

/// A successful answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub code: u16,
    pub encoding: Encoding,
    pub body: Bytes,
}

impl Api {
    /// The way through clients that exist already.
    #[must_use]
    pub fn from_clients(clients: impl Into<Clients>, settings: ApiSettings, gate: WriteGate) -> Self {
        let manner = Manner { pace: Pace::Each, limit: settings.request_timeout, decided_under: None };
        let inner = Inner {
            clients: clients.into(),
            rate_limiter: RateLimiter::new(settings.qps, settings.burst),
            jitter: Jitter::new(settings.seed),
            concurrency: ConcurrencyLimits::default(),
            bulkhead: Bulkhead::default(),
            reachability: Reachability::default(),
            settings,
            restore_fence: RestoreFence::new(gate.clone()),
            gate,
            high_water: HighWater::default(),
            strategic_merge: StrategicMergeSupport::default(),
            write_encodings: WriteEncodings::default(),
        };
        Self(Arc::new(inner), manner)
    }

    /// Waits for the rate limiter for so many requests about single objects.
    pub(super) async fn take_tokens(&self, requests: u32) {
        for _ in 0..requests {
            self.0.rate_limiter.acquire().await;
        }
    }

    /// A way on which requests have waited, and have this slot.
    pub(super) fn with_slot(&self, slot: SharedSlot) -> Self {
        Self(Arc::clone(&self.0), Manner { pace: Pace::Reserved(slot), ..self.1.clone() })
    }

    /// Whether requests wait for nothing any more.
    pub(super) const fn is_reserved(&self) -> bool {
        matches!(self.1.pace, Pace::Reserved(_))
    }

    /// A way on which no answer takes longer than this.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self(Arc::clone(&self.0), Manner { limit: limit.min(self.1.limit), ..self.1.clone() })
    }

    /// A way on which nothing is written once watches have broken after this
    /// disturbance: what is to be written was decided under it.
    #[must_use]
    pub fn under(&self, disturbance: u64) -> Self {
        Self(Arc::clone(&self.0), Manner { decided_under: Some(disturbance), ..self.1.clone() })
    }

    pub(super) const fn decided_under(&self) -> Option<u64> {
        self.1.decided_under
    }

    /// What other API servers answer for, as it was discovered just now.
    pub(crate) fn aggregate(&self, watchable: &[Watchable]) {
        let groups = watchable.iter().filter(|watchable| watchable.aggregated);
        self.0.concurrency.set_aggregated(groups.map(|watchable| &*watchable.resource.group_resource.group));
    }

    /// Whether another API server answers for this type, as far as is known. It may ignore
    /// preconditions.
    #[must_use]
    pub fn is_aggregated(&self, resource: &GroupResource) -> bool {
        self.0.concurrency.is_aggregated(resource)
    }

    /// In which namespaces requests hang.
    pub(super) fn bulkhead(&self) -> &Bulkhead {
        &self.0.bulkhead
    }

    /// Whether the API server can be reached.
    pub(super) fn reachability(&self) -> &Reachability {
        &self.0.reachability
    }

    /// How it behaves.
    #[must_use]
    pub fn settings(&self) -> &ApiSettings {
        &self.0.settings
    }

    /// The gate that every write passes.
    #[must_use]
    pub fn gate(&self) -> &WriteGate {
        &self.0.gate
    }

    /// The last version seen of every type.
    #[must_use]
    pub fn high_water(&self) -> &HighWater {
        &self.0.high_water
    }

    /// What is in doubt, and holds up writes.
    #[must_use]
    pub fn restore_fence(&self) -> &RestoreFence {
        &self.0.restore_fence
    }

    pub(super) fn jitter(&self) -> &Jitter {
        &self.0.jitter
    }

    /// Which types take strategic merge patches.
    pub(super) fn strategic_merge(&self) -> &StrategicMergeSupport {
        &self.0.strategic_merge
    }

    /// Which types can be written to in protobuf.
    pub(super) fn write_encodings(&self) -> &WriteEncodings {
        &self.0.write_encodings
    }

    /// Makes a unary call: waits for its turn and for a slot if it is about a single
    /// object, asks the gate if it writes, and reads the whole answer, all but the
    /// waiting within the timeout.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Answer, ApiError> {
        // Discovery of an old server is a hundred small requests, all at once and
        // then none for long: no load that a limit is for. And a list that a watch
        // needs to go on must not wait behind a thousand deletions.
        if !call.is_about_an_object() {
            self.pass(&call).await?;
            return Box::pin(self.exchange(call)).await.0;
        }
        if let Pace::Reserved(held) = &self.1.pace {
            return self.exchange_in(held, call).await;
        }
        self.ready(&call).await?;
        self.0.rate_limiter.acquire().await;
        let slot = self.slot_for(&call).await?;
        self.exchange_at(Some(slot), call, Slot::end).await
    }

    /// Whether a call would be sent now. What is not sent takes nobody's turn.
    pub(super) async fn ready(&self, call: &Call<'_>) -> Result<(), ApiError> {
        self.pass(call).await?;
        self.0.bulkhead.check(call)
    }

    /// Waits for a slot for a call, unless it must not be sent.
    pub(super) async fn slot_for(&self, call: &Call<'_>) -> Result<Slot, ApiError> {
        // What must not be sent anyway needs no slot, and dispelling a doubt takes long.
        self.may_write(call).await?;
        Ok(self.0.concurrency.slot(call.resource).await)
    }

    /// Makes a call in a slot that was taken before. It waits for none: while another
    /// request uses the slot, and when it is lost because one of them hangs, the call goes
    /// without.
    async fn exchange_in(&self, held: &SharedSlot, call: Call<'_>) -> Result<Answer, ApiError> {
        // Not even for a probe.
        self.pass_at_once(&call)?;
        let slot = held.take(|slot| self.0.concurrency.is_for(slot, call.resource));
        self.exchange_at(slot, call, |slot, signal| held.put_back(slot, signal)).await
    }

    /// Makes a call about a single object, in a slot if there is one.
    async fn exchange_at(
        &self,
        mut slot: Option<Slot>,
        call: Call<'_>,
        end: impl FnOnce(Slot, Signal),
    ) -> Result<Answer, ApiError> {
        // Others may have begun to hang while it waited.
        let mut guard = self.0.bulkhead.admit(&call)?;
        let patience = guard.patience();
        let exchange = Box::pin(self.exchange(call));
        let hangs = || guard.hangs();
        let (answer, signal) = match &mut slot {
            Some(slot) => slot.keep(exchange, patience, hangs).await,
            None => when_it_hangs(exchange, patience, hangs).await,
        };
        if let Some(slot) = slot {
            end(slot, signal);
        }
        guard.end(End::of(&answer));
        answer
    }

    /// Sends a request and reads the answer; and says what it shows of how busy the
    /// server is.
    ///
    /// To be boxed: it is large, and every future around it would be larger by it, or by
    /// twice as much, and moved whole when it becomes a task.
    pub(super) async fn exchange(&self, mut call: Call<'_>) -> (Result<Answer, ApiError>, Signal) {
        match self.send(&mut call).await {
            Err(error) => (Err(error), Signal::Ignored),
            Ok((parts, body)) if parts.status.is_success() => {
                if let Some(status) = Status::of_failure(&body) {
                    return (Err(call.contradiction(parts.status.as_u16(), &status)), Signal::Ignored);
                }
                let (code, encoding) = (parts.status.as_u16(), Encoding::of(&parts.headers));
                (Ok(Answer { code, encoding, body }), Signal::Served)
            }
            Ok((parts, body)) => {
                let (code, status) =
                    (parts.status.as_u16(), Status::read(Encoding::of(&parts.headers), &body));
                let signal = match code {
                    429 if says_too_busy(code, &status) => Signal::Rejected,
                    // It failed, which may have nothing to do with how much there is to do.
                    408 | 500.. => Signal::Ignored,
                    _ => Signal::Served,
                };
                (Err(call.refusal(code, &parts.headers, &status, &body)), signal)
            }
        }
    }

    /// Asks the gate if it writes, sends it, and reads whatever the answer is.
    async fn send(&self, call: &mut Call<'_>) -> Result<(Parts, Bytes), ApiError> {
        let mut request = call.request(self.0.settings.compressed_lists)?;
        let lag = DeletionLag::current().filter(|_| call.verb == Verb::Delete);
        if let Some(lag) = lag.clone() {
            request.extensions_mut().insert(lag);
        }
        let mut limit = self.1.limit;
        let mut permit = None;
        if call.writes() {
            self.may_write(call).await?;
            // Nothing may come between this check and the transport.
            let leave = self.leave(call)?;
            limit = leave.limit(limit);
            permit = Some(leave);
        }
        let connection = capture_connection(&mut request);
        let start = Instant::now();
        let exchange = timeout(limit, async {
            let response = self.0.clients.unary.send(request).await.map_err(|error| {
                if connection_error::is_connection_error(&error) {
                    self.restore_fence().connection_lost(call.resource);
                }
                transport(call, &error)
            })?;
            let (parts, body) = response.into_parts();
            let body = self.read_body(call, body).await?;
            Ok::<_, ApiError>((parts, body))
        });
        let answer = match permit {
            None => Ok(exchange.await),
            Some(permit) => tokio::select! {
                biased;
                () = self.0.gate.outlived(permit) => Err("this replica has lost its lease"),
                () = self.disturbed(&connection) => Err("watches broke"),
                answer = exchange => Ok(answer),
            },
        };
        let answer = answer.map(|answer| answer.unwrap_or_else(|_| Err(too_slow(call, limit))));
        if let Ok(answer) = &answer {
            let code = answer.as_ref().map(|(parts, _)| parts.status.as_u16());
            self.note_reachable(call, start, code);
        }
        let answer = answer.unwrap_or_else(|why| Err(given_up(call, why)));
        let code = answer.as_ref().ok().map(|(parts, _)| parts.status.as_u16());
        // For clients without a layer that knows better: what was answered was sent.
        if let Some(lag) = lag.filter(|_| code.is_some()) {
            lag.deletion_sent_at(start);
        }
        self.0.settings.observer.request(call.verb, call.resource, code, start.elapsed());
        answer
    }

    /// Resolves when watches have broken after the decision to write, and the request still
    /// waits for a connection: that may lead to another store. One that has a connection is
    /// on its way to the store that was decided on, and its answer is worth waiting for.
    async fn disturbed(&self, connection: &CaptureConnection) {
        if let Some(number) = self.1.decided_under {
            self.0.restore_fence.superseded(number).await;
            let is_on_its_way = connection.connection_metadata().is_some();
            if !is_on_its_way {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Refuses what writes while nothing may be written.
    async fn may_write(&self, call: &Call<'_>) -> Result<(), ApiError> {
        if !call.writes() {
            return Ok(());
        }
        self.leave(call)?;
        // An event takes nothing away, whatever it rests on.
        if call.verb != Verb::Create {
            self.check_restore_fence(call).await?;
        }
        Ok(())
    }

    /// Asks the gate for leave to write.
    fn leave(&self, call: &Call<'_>) -> Result<WritePermit, ApiError> {
        self.0.gate.permit().map_err(|closed| {
            record::gate_refused(closed.reason());
            call.error(class_of(closed), closed.to_string(), None)
        })
    }

    /// Opens a stream: the headers come within the timeout, the body is the
    /// caller's. Errors are read to the end.
    pub(super) async fn open(&self, mut call: Call<'_>) -> Result<Response<Body>, ApiError> {
        let limit = self.0.settings.request_timeout;
        let clients = &self.0.clients;
        let client = if call.verb == Verb::Watch { &clients.watches } else { &clients.lists };
        let request = call.request(self.0.settings.compressed_lists)?;
        let start = Instant::now();
        let deadline = start + limit;
        let response = timeout_at(deadline, client.send(request))
            .await
            .unwrap_or_else(|_| Err(kube::Error::Service("no answer in time".into())))
            .map_err(|error| transport(&call, &error));
        self.note_reachable(&call, start, response.as_ref().map(|response| response.status().as_u16()));
        let code = response.as_ref().ok().map(|response| response.status().as_u16());
        let is_ok = response.as_ref().is_ok_and(|response| response.status().is_success());
        if !is_ok || call.verb == Verb::Watch {
            self.observe(call.verb, call.resource, code, start);
        }
        let response = response?;
        if is_ok {
            self.write_encodings().answered(call.resource, Encoding::of(response.headers()));
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = timeout_at(deadline, self.read_body(&call, body))
            .await
            .unwrap_or_else(|_| Err(too_slow(&call, limit)))?;
        let status = Status::read(Encoding::of(&parts.headers), &body);
        Err(call.refusal(parts.status.as_u16(), &parts.headers, &status, &body))
    }

    /// Reads an answer to its end, unless it has none.
    async fn read_body(&self, call: &Call<'_>, mut body: Body) -> Result<Bytes, ApiError> {
        let longest = if call.is_about_an_object() { LONGEST_OBJECT } else { LONGEST_ANSWER };
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                if connection_error::is_caused_by_connection(&error) {
                    self.restore_fence().connection_lost(call.resource);
                }
                call.error(ErrorClass::Transient, chain(&error), None)
            })?;
            if let Ok(data) = frame.into_data() {
                if whole.len() + data.len() > longest {
                    let message = format!("the answer is longer than {longest} bytes");
                    return Err(call.error(ErrorClass::TooLong, message, None));
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok(whole.freeze())
    }

    /// Tells the observer of a request that began then.
    pub(super) fn observe(&self, verb: Verb, resource: &GroupResource, code: Option<u16>, start: Instant) {
        self.0.settings.observer.request(verb, resource, code, start.elapsed());
    }
}

fn too_slow(call: &Call<'_>, limit: Duration) -> ApiError {
    call.error(ErrorClass::Transient, format!("no answer within {limit:?}"), None)
}

/// What became of it is not known: it may have taken effect.
fn given_up(call: &Call<'_>, why: &str) -> ApiError {
    call.error(ErrorClass::Transient, format!("given up, because {why}"), None)
}

const fn class_of(closed: GateClosed) -> ErrorClass {
    match closed {
        GateClosed::DryRun => ErrorClass::DryRun,
        GateClosed::Closed | GateClosed::Standby | GateClosed::Expired => ErrorClass::GateClosed,
    }
}

/// Sorts a request that got no answer.
fn transport(call: &Call<'_>, error: &kube::Error) -> ApiError {
    let class = match error {
        // Getting credentials failed, not the request.
        kube::Error::Auth(_) => ErrorClass::Denied,
        // The same, if they are got anew for each request.
        kube::Error::Service(cause) if cause.is::<AuthError>() => ErrorClass::Denied,
        kube::Error::Service(cause) => match cause.downcast_ref::<GateClosed>() {
            Some(closed) => class_of(*closed),
            None => ErrorClass::Transient,
        },
        _ => ErrorClass::Transient,
    };
    call.error(class, chain(error), None)
}

/// An error and what it came from: the outermost message of a transport error
/// is only "client error (Connect)".
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
