//! Recording the requests to the API server.

use std::time::Duration;

use super::{Value, counter, float, gauge, histogram, names};
use kube_gc_core::object::GroupResource;

/// A request was answered with this status `code`, or not at all (`"timeout"`,
/// `"error"`). Discovery has no resource: an empty [`GroupResource`].
pub fn request(verb: &'static str, resource: &GroupResource, code: &str, duration: Duration) {
    let labels = [Value::Static(verb), Value::Shown(resource), Value::Text(code)];
    counter(&names::REQUESTS, labels).increment(1);
    histogram(&names::REQUEST_DURATION, [Value::Static(verb)]).record(duration);
}

/// Who has too much to do when a request is refused for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiSide {
    /// The API server itself.
    Kubernetes,
    /// An aggregated API.
    Aggregated,
    /// Whatever limits the writing of events.
    Events,
}

impl ApiSide {
    pub(in crate::telemetry) const ALL: [Self; 3] = [Self::Kubernetes, Self::Aggregated, Self::Events];

    /// The name in labels and in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Aggregated => "aggregated",
            Self::Events => "events",
        }
    }
}

/// So many requests about single objects may be under way at a time.
pub fn api_concurrency(limit: usize) {
    gauge(&names::API_CONCURRENCY_LIMIT, []).set(float(limit));
}

/// A 429 had the effect that fewer requests are sent at a time, or none for a moment.
pub fn api_concurrency_cut(side: ApiSide) {
    counter(&names::API_CONCURRENCY_CUTS, [Value::Static(side.name())]).increment(1);
}

/// The API server can be reached, or not.
pub fn api_server_reachable(is_reachable: bool) {
    gauge(&names::API_SERVER_REACHABLE, []).set(float(usize::from(is_reachable)));
}

/// It could not be reached for so much longer.
pub fn api_server_outage(more: Duration) {
    let outage = counter(&names::API_SERVER_OUTAGE, []);
    outage.increment(more.as_secs() + u64::from(more.subsec_nanos() >= 500_000_000));
}

/// A request was not sent.
pub fn request_deferred(reason: &'static str) {
    counter(&names::REQUESTS_DEFERRED, [Value::Static(reason)]).increment(1);
}

/// In so many compartments requests hang.
pub fn hanging_compartments(count: usize) {
    gauge(&names::HANGING_COMPARTMENTS, []).set(float(count));
}

/// Why requests are deferred.
pub(in crate::telemetry) const DEFERRED_FOR: [&str; 2] = ["unreachable", "hanging"];

/// The series of this part, as zeros.
pub(super) fn zeros() {
    api_server_reachable(true);
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
