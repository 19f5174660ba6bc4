//! Recording what the two listeners refuse, and the certificate that they show.

use super::{Value, counter, float, gauge, names};

/// The listeners.
pub(in crate::telemetry) const LISTENERS: [&str; 2] = ["health", "debug"];
/// What may come of a certificate that has changed.
pub(in crate::telemetry) const RELOADS: [&str; 2] = ["loaded", "failed"];

/// Why a connection or a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HttpRefusal {
    /// No TLS was agreed upon, or not in time.
    Handshake,
    /// No request came in time.
    Silent,
    /// The head of the request is too long.
    Head,
    /// Neither GET nor HEAD.
    Method,
    /// It has a body.
    Body,
    /// Too many requests at a time.
    Busy,
    /// There is no token, or the API server does not know it.
    Unauthenticated,
    /// Its user may not.
    Forbidden,
    /// The API server cannot say who may.
    Unavailable,
    /// The answer took too long.
    Timeout,
}

impl HttpRefusal {
    pub(in crate::telemetry) const ALL: [Self; 10] = [
        Self::Handshake,
        Self::Silent,
        Self::Head,
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

/// A listener refused something.
pub fn http_refused(listener: &'static str, refusal: HttpRefusal) {
    counter(&names::HTTP_REFUSALS, [Value::Static(listener), Value::Static(refusal.label())]).increment(1);
}

/// How many connections a listener has open.
pub fn http_connections(listener: &'static str, open: usize) {
    gauge(&names::HTTP_CONNECTIONS, [Value::Static(listener)]).set(float(open));
}

/// A listener closed a connection for another one.
pub fn http_connection_evicted(listener: &'static str) {
    counter(&names::HTTP_CONNECTIONS_EVICTED, [Value::Static(listener)]).increment(1);
}

/// The files of the certificate have changed and are shown from now on.
pub fn certificate_loaded() {
    counter(&names::TLS_RELOADS, [Value::Static("loaded")]).increment(1);
    gauge(&names::TLS_STALE, []).set(0.0);
}

/// The files of the certificate have changed and cannot be used.
pub fn certificate_failed() {
    counter(&names::TLS_RELOADS, [Value::Static("failed")]).increment(1);
    gauge(&names::TLS_STALE, []).set(1.0);
}

/// The files are what is shown, again: what they were in between could not be used.
pub fn certificate_restored() {
    gauge(&names::TLS_STALE, []).set(0.0);
}

/// The series of this part, as zeros.
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
