//! The pages of the health listener: probes and metrics.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::page::{not_found, page, text};
use super::{Check, Introspection, Readiness};
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
pub fn health_router(introspection: Arc<dyn Introspection>, exporter: Exporter) -> Router {
    router(Arc::new(move || introspection.readiness()), exporter)
}

/// The same pages for node collection.
#[cfg(feature = "node")]
pub fn node_health_router(introspection: Arc<dyn super::NodeIntrospection>, exporter: Exporter) -> Router {
    router(Arc::new(move || introspection.readiness()), exporter)
}

/// Answers whether this process can work.
type IsReady = Arc<dyn Fn() -> Readiness + Send + Sync>;

fn router(is_ready: IsReady, exporter: Exporter) -> Router {
    Router::new()
        .route("/readyz", get(readyz).with_state(is_ready))
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

async fn readyz(State(is_ready): State<IsReady>, query: RawQuery) -> Response {
    probe("readyz", &is_ready(), query)
}

/// Shows all checks on request or on failure, as Kubernetes' own servers do.
fn probe(endpoint: &str, readiness: &Readiness, RawQuery(query): RawQuery) -> Response {
    let verbose = query.is_some_and(|query| {
        query.split('&').any(|parameter| parameter == "verbose" || parameter.starts_with("verbose="))
    });
    match (readiness.ready(), verbose) {
        (true, false) => page(StatusCode::OK, super::page::TEXT, "ok"),
        (true, true) => text(StatusCode::OK, readiness.verbose(endpoint)),
        (false, _) => text(StatusCode::SERVICE_UNAVAILABLE, readiness.verbose(endpoint)),
    }
}
