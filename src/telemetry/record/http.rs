//! Metrics of the two listeners and their certificate.

use super::{Value, counter, float, gauge, names};

/// The listeners.
pub(in crate::telemetry) const LISTENERS: [&str; 2] = ["health", "debug"];
/// The results of a reload of the certificate.
pub(in crate::telemetry) const RELOADS: [&str; 2] = ["loaded", "failed"];

/// Why a connection or a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HttpRefusal {
    /// The TLS handshake failed or timed out.
    Handshake,
    /// No request arrived in time.
    Silent,
    /// The headers of the request are too large.
    Head,
    /// The request is for another host.
    Host,
    /// The method is neither GET nor HEAD.
    Method,
    /// The request has a body.
    Body,
    /// Too many requests were in flight.
    Busy,
    /// The token is missing or unknown to the API server.
    Unauthenticated,
    /// The user lacks permission.
    Forbidden,
    /// The API server could not review the request.
    Unavailable,
    /// The response took too long.
    Timeout,
}

impl HttpRefusal {
    pub(in crate::telemetry) const ALL: [Self; 11] = [
        Self::Handshake,
        Self::Silent,
        Self::Head,
        Self::Host,
        Self::Method,
        Self::Body,
        Self::Busy,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::Unavailable,
        Self::Timeout,
    ];

    pub(in crate::telemetry) const fn label(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Silent => "silent",
            Self::Head => "head",
            Self::Host => "host",
            Self::Method => "method",
            Self::Body => "body",
            Self::Busy => "busy",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
        }
    }
}

/// Counts a connection or request that a listener rejected.
pub fn http_refused(listener: &'static str, refusal: HttpRefusal) {
    counter(&names::HTTP_REFUSALS, [Value::Static(listener), Value::Static(refusal.label())]).increment(1);
}

/// Records the number of open connections of a listener.
pub fn http_connections(listener: &'static str, open: usize) {
    gauge(&names::HTTP_CONNECTIONS, [Value::Static(listener)]).set(float(open));
}

/// Counts a connection that a listener closed to make room for a new one.
pub fn http_connection_evicted(listener: &'static str) {
    counter(&names::HTTP_CONNECTIONS_EVICTED, [Value::Static(listener)]).increment(1);
}

/// Records that the changed certificate files were loaded.
pub fn certificate_loaded() {
    counter(&names::TLS_RELOADS, [Value::Static("loaded")]).increment(1);
    gauge(&names::TLS_STALE, []).set(0.0);
}

/// Records that the changed certificate files cannot be used.
pub fn certificate_failed() {
    counter(&names::TLS_RELOADS, [Value::Static("failed")]).increment(1);
    gauge(&names::TLS_STALE, []).set(1.0);
}

/// Records that unusable certificate files were reverted to those in use.
pub fn certificate_restored() {
    gauge(&names::TLS_STALE, []).set(0.0);
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    for listener in LISTENERS {
        http_connections(listener, 0);
        counter(&names::HTTP_CONNECTIONS_EVICTED, [Value::Static(listener)]).increment(0);
        for refusal in HttpRefusal::ALL {
            counter(&names::HTTP_REFUSALS, [Value::Static(listener), Value::Static(refusal.label())])
                .increment(0);
        }
    }
    for result in RELOADS {
        counter(&names::TLS_RELOADS, [Value::Static(result)]).increment(0);
    }
    certificate_restored();
}
