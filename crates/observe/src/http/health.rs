//! The pages of the health listener: metrics, probes, and the checks of `/readyz`.

use std::fmt::Write as _;

use axum::Router;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::page::{TEXT, not_found, page, text};
use crate::telemetry::{Escaped, Exporter};

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

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The check passed.
    Fine,
    /// A person should look at it, but the collector works otherwise.
    Warning,
    /// The collector is not ready.
    Failed,
}

/// One line of `/readyz?verbose`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name of the check.
    pub name: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason, unless it passed.
    pub message: String,
}

impl Check {
    /// A check that passed.
    pub fn fine(name: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::Fine, message: String::new() }
    }

    /// A check with a warning, which does not affect readiness.
    pub fn warning(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::Warning, message: message.into() }
    }

    /// A check that failed.
    pub fn failed(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::Failed, message: message.into() }
    }
}

/// Whether the collector can work, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The checks, in display order.
    pub checks: Vec<Check>,
}

impl Readiness {
    /// Whether no check failed.
    pub fn ready(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.outcome != Outcome::Failed)
    }

    /// One line for each check, in the format of Kubernetes' own servers, with `[!]` for
    /// warnings, which those do not have.
    pub fn verbose(&self, endpoint: &str) -> String {
        let mut text = String::new();
        for Check { name, outcome, message } in &self.checks {
            // A server's message may have several lines.
            let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
            let (name, message) = (Escaped(name), Escaped(message));
            let _ = match outcome {
                Outcome::Fine => writeln!(text, "[+]{name} ok"),
                Outcome::Warning => writeln!(text, "[!]{name} warning: {message}"),
                Outcome::Failed => writeln!(text, "[-]{name} failed: {message}"),
            };
        }
        let verdict = if self.ready() { "passed" } else { "failed" };
        let _ = writeln!(text, "{endpoint} check {verdict}");
        text
    }
}
