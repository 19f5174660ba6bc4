//! The pages of the health listener: metrics and probes.

use axum::Router;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::page::{TEXT, not_found, page, text};
use crate::readiness::{Check, Readiness};
use crate::telemetry::Exporter;

const INDEX: &str = "\
/livez    200 while the process is alive
/readyz   200 if the collector can work; ?verbose shows each check
/healthz  same as /livez
/metrics  metrics for Prometheus
";

/// The content type of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The pages of the health listener.
pub fn health_router(
    readiness: impl Fn() -> Readiness + Clone + Send + Sync + 'static,
    exporter: Exporter,
) -> Router {
    Router::new()
        .route("/readyz", get(async move |query| probe("readyz", &readiness(), query)))
        .route("/metrics", get(async move || page(StatusCode::OK, PROMETHEUS, exporter.render())))
        .route("/livez", get(async |query| alive("livez", query)))
        .route("/healthz", get(async |query| alive("healthz", query)))
        .route("/", get(async || text(StatusCode::OK, INDEX)))
        .fallback(not_found)
}

/// Always succeeds: if an essential actor fails, the process ends.
fn alive(endpoint: &str, query: RawQuery) -> Response {
    probe(endpoint, &Readiness { checks: vec![Check::fine("ping")] }, query)
}

/// Shows all checks on request or on failure, as Kubernetes' own servers do.
fn probe(endpoint: &str, readiness: &Readiness, RawQuery(query): RawQuery) -> Response {
    let verbose = query.is_some_and(|query| {
        query.split('&').any(|parameter| parameter == "verbose" || parameter.starts_with("verbose="))
    });
    match (readiness.ready(), verbose) {
        (true, false) => page(StatusCode::OK, TEXT, "ok"),
        (true, true) => text(StatusCode::OK, readiness.verbose(endpoint)),
        (false, _) => text(StatusCode::SERVICE_UNAVAILABLE, readiness.verbose(endpoint)),
    }
}
