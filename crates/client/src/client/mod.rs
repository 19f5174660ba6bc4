//! The client of one API server.
//!
//! [`Api`] holds what all requests share. `exchange` sends one request and reads its answer, or opens a
//! list or a watch, and `slots` makes requests about single objects wait for the limits. What a request means (a DELETE, a patch, a look-up) is in the
//! modules beside this one, which extend [`Api`].

mod exchange;
mod slots;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dashmap::DashSet;
use http::{Method, Request, Response};
use kube::client::Body;
use tokio::time::Instant;

use super::limits::{Limits, RateLimiter, Slot};
use super::reachability::Reachability;
use super::restore_fence::{HighWater, RestoreFence};
use super::settings::{ApiSettings, Jitter, Verb};
use super::write_gate::{GateClosed, WriteGate, WritePermit};
use kube_gc_core::object::GroupResource;
use kube_gc_observe::telemetry::record;
pub use slots::WriteSlot;

/// The client of one API server. Clones are cheap and share everything but their
/// `Options`.
#[derive(Clone)]
pub struct Api(pub(super) Arc<Inner>, Options);

/// The HTTP clients of an [`Api`]. They share no connection: lists and watches are read on
/// other threads than answers about single objects, and a connection is driven by the
/// thread that opened it. None may retry by itself.
#[derive(Clone)]
pub struct Clients {
    /// For requests that are answered in one piece.
    pub unary: Sender,
    /// For lists. It should decompress.
    pub lists: Sender,
    pub watches: Sender,
}

/// An HTTP client that sends nothing but reads without a permit.
#[derive(Clone)]
pub struct Sender(pub(super) kube::Client);

impl Sender {
    async fn send(
        &self,
        request: Request<Body>,
        permit: Option<WritePermit>,
    ) -> Result<Response<Body>, kube::Error> {
        if permit.is_none() && *request.method() != Method::GET {
            return Err(kube::Error::Service(Box::new(GateClosed::Closed)));
        }
        self.0.send(request).await
    }
}

impl From<kube::Client> for Clients {
    fn from(client: kube::Client) -> Self {
        let sender = Sender(client);
        Self { unary: sender.clone(), lists: sender.clone(), watches: sender }
    }
}

/// Options of the requests that one clone sends.
#[derive(Clone, Debug)]
struct Options {
    /// The slot that requests about single objects have already. Otherwise each waits for the rate and
    /// concurrency limits right before it is sent.
    slot: Option<Arc<Slot>>,
    limit: Duration,
    /// The latest acknowledged disturbance when the write was decided.
    decided_under: Option<u64>,
}

pub(super) struct Inner {
    pub(super) clients: Clients,
    settings: ApiSettings,
    gate: WriteGate,
    high_water: HighWater,
    restore_fence: RestoreFence,
    rate_limiter: RateLimiter,
    pub(super) limits: Limits,
    pub(super) reachability: Reachability,
    pub(super) jitter: Jitter,
    /// The types that refuse strategic merge patches. Discovery does not say it: built-in types accept
    /// them, custom resources do not (415), and an aggregated API may or may not.
    pub(super) not_strategic: DashSet<GroupResource>,
    pub(super) streaming_lists: Arc<AtomicBool>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Api {
    /// An API client on top of existing HTTP clients.
    pub fn from_clients(clients: impl Into<Clients>, settings: ApiSettings, gate: WriteGate) -> Self {
        let options = Options { slot: None, limit: settings.request_timeout, decided_under: None };
        let inner = Inner {
            clients: clients.into(),
            rate_limiter: RateLimiter::new(settings.qps, settings.burst),
            jitter: Jitter::new(settings.seed),
            streaming_lists: Arc::new(AtomicBool::new(settings.streaming_lists)),
            limits: Limits::new(),
            reachability: Reachability::new(),
            settings,
            restore_fence: RestoreFence::new(gate.clone()),
            gate,
            high_water: HighWater::default(),
            not_strategic: DashSet::new(),
        };
        Self(Arc::new(inner), options)
    }

    /// A clone whose requests do not wait: they have this slot.
    fn with_slot(&self, slot: Slot) -> Self {
        Self(Arc::clone(&self.0), Options { slot: Some(Arc::new(slot)), ..self.1.clone() })
    }

    /// Whether the requests of this clone have a slot already.
    pub(super) const fn is_reserved(&self) -> bool {
        self.1.slot.is_some()
    }

    /// A clone whose requests take no longer than this.
    pub fn within(&self, limit: Duration) -> Self {
        Self(Arc::clone(&self.0), Options { limit: limit.min(self.1.limit), ..self.1.clone() })
    }

    /// A clone whose writes were decided under this disturbance. They are not sent if
    /// watches have broken since.
    pub fn under(&self, disturbance: u64) -> Self {
        Self(Arc::clone(&self.0), Options { decided_under: Some(disturbance), ..self.1.clone() })
    }

    pub(super) const fn decided_under(&self) -> Option<u64> {
        self.1.decided_under
    }

    /// Whether an aggregated API serves this type, as far as discovery has shown. It may
    /// ignore preconditions.
    pub fn is_aggregated(&self, resource: &GroupResource) -> bool {
        self.0.limits.is_aggregated(resource)
    }

    pub fn settings(&self) -> &ApiSettings {
        &self.0.settings
    }

    /// The gate that every write passes.
    pub fn gate(&self) -> &WriteGate {
        &self.0.gate
    }

    /// The last version seen of every type.
    pub fn high_water(&self) -> &HighWater {
        &self.0.high_water
    }

    /// The fence that holds writes back while the store may have been restored.
    pub fn restore_fence(&self) -> &RestoreFence {
        &self.0.restore_fence
    }

    /// Counts a request that began at `start`: a watch when it opens, a list when it was read to its end.
    pub(super) fn observe(&self, verb: Verb, resource: &GroupResource, code: Option<u16>, start: Instant) {
        let code = code.map_or_else(|| "error".to_owned(), |code| code.to_string());
        record::request(verb.forms().0, resource, &code, start.elapsed());
    }
}

#[cfg(test)]
mod tests;
