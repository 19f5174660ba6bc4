//! Metrics of requests to the API server.

use std::time::Duration;

use super::{Value, counter, float, gauge, histogram, names};
use kube_gc_core::object::GroupResource;

/// Counts a request with the status `code` of its response, or `"timeout"` or `"error"`
/// without one. Discovery uses an empty [`GroupResource`].
pub fn request(verb: &'static str, resource: &GroupResource, code: &str, duration: Duration) {
    let labels = [Value::Static(verb), Value::Display(resource), Value::Text(code)];
    counter(&names::REQUESTS, labels).increment(1);
    histogram(&names::REQUEST_DURATION, [Value::Static(verb)]).record(duration);
}

/// The server whose 429 lowers a concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiSide {
    /// The API server itself.
    Kubernetes,
    /// An aggregated API.
    Aggregated,
    /// The API server, when it limits the writing of events.
    Events,
}

impl ApiSide {
    pub(in crate::telemetry) const ALL: [Self; 3] = [Self::Kubernetes, Self::Aggregated, Self::Events];

    /// The name in labels and the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Aggregated => "aggregated",
            Self::Events => "events",
        }
    }
}

/// Records the concurrency limit of requests about single objects.
pub fn api_concurrency(limit: usize) {
    gauge(&names::API_CONCURRENCY_LIMIT, []).set(float(limit));
}

/// Counts a 429 that lowered a concurrency limit or caused a pause.
pub fn api_concurrency_cut(side: ApiSide) {
    counter(&names::API_CONCURRENCY_CUTS, [Value::Static(side.name())]).increment(1);
}

/// Records whether the API server is reachable.
pub fn api_server_reachable(is_reachable: bool) {
    gauge(&names::API_SERVER_REACHABLE, []).set(float(usize::from(is_reachable)));
}

/// Records whether the API server refuses the credentials.
pub fn credentials_refused(is_refused: bool) {
    gauge(&names::CREDENTIALS_REFUSED, []).set(float(usize::from(is_refused)));
}

/// Adds to the total time of outages of the API server.
pub fn api_server_outage(more: Duration) {
    let outage = counter(&names::API_SERVER_OUTAGE, []);
    outage.increment(more.as_secs() + u64::from(more.subsec_nanos() >= 500_000_000));
}

/// Counts a request that was deferred.
pub fn request_deferred(reason: &'static str) {
    counter(&names::REQUESTS_DEFERRED, [Value::Static(reason)]).increment(1);
}

/// Records the number of compartments in which requests hang.
pub fn hanging_compartments(count: usize) {
    gauge(&names::HANGING_COMPARTMENTS, []).set(float(count));
}

/// Why requests are deferred.
pub(in crate::telemetry) const DEFERRED_FOR: [&str; 2] = ["unreachable", "hanging"];

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    api_server_reachable(true);
    credentials_refused(false);
    api_server_outage(Duration::ZERO);
    DEFERRED_FOR
        .into_iter()
        .for_each(|reason| counter(&names::REQUESTS_DEFERRED, [Value::Static(reason)]).increment(0));
    hanging_compartments(0);
    api_concurrency(0);
    for side in ApiSide::ALL {
        counter(&names::API_CONCURRENCY_CUTS, [Value::Static(side.name())]).increment(0);
    }
}
