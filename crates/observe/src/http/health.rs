//! The pages of the health listener: metrics, probes, and the checks of `/readyz`.

use std::fmt::{self, Write as _};

use axum::Router;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::page::{TEXT, not_found, page, text};
use super::view::{MonitorStatus, Timestamp, Undiscovered};
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

/// The inputs of [`Readiness::assess`].
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// `Ok` once discovery has succeeded; otherwise its error, or that it has not finished.
    pub discovery: Result<(), &'a str>,
    /// Whether the workers have started: all monitors were synced, or the start-up timeout has
    /// passed.
    pub started: bool,
    /// When the process started.
    pub since: Timestamp,
    /// Every monitor.
    pub monitors: &'a [MonitorStatus],
    /// The parts of the API that cannot be discovered.
    pub undiscovered: &'a [Undiscovered],
    /// The warnings of [`Settings::ignored_type_warnings`](kube_gc_config::Settings::ignored_type_warnings).
    pub ignored: &'a [String],
    /// Why the brake is engaged; `None` if it is not.
    pub brake: Option<&'a str>,
    /// Since when the API server has refused the credentials, and why; `None` if it accepts them.
    pub refused: Option<(Timestamp, String)>,
    /// Whether this replica leads, in words; `None` without an election.
    pub leadership: Option<String>,
    /// `None` unless this is a dry run.
    pub compared: Option<ComparisonCounts>,
}

impl Readiness {
    /// The collector is ready once discovery has succeeded and the graph is synced or the
    /// start-up timeout has passed. A type that cannot sync, or a group that cannot be
    /// discovered, is only a warning: collection of all other types must not depend on it.
    pub fn assess(facts: &Facts<'_>) -> Self {
        let mut checks = Vec::new();
        checks.push(match facts.discovery {
            Ok(()) => Check::fine("discovery"),
            Err(why) => Check::failed("discovery", why),
        });
        let unsynced = facts.monitors.iter().filter(|monitor| !monitor.synced).count();
        checks.push(if facts.started && facts.discovery.is_ok() {
            sync(facts.monitors)
        } else if facts.discovery.is_err() {
            Check::failed("sync", format!("waiting for discovery since {}", facts.since))
        } else {
            let all = facts.monitors.len();
            Check::failed(
                "sync",
                format!("{unsynced} of {all} resource types are not synced, waiting since {}", facts.since),
            )
        });
        // A standby is ready. Otherwise, a rolling update would wait for it forever.
        checks.extend(facts.leadership.as_ref().map(|role| Check::fine(format!("leadership: {role}"))));
        checks.extend(
            facts
                .refused
                .as_ref()
                .map(|(since, why)| Check::warning("credentials", format!("refused since {since}: {why}"))),
        );
        checks.extend(facts.brake.map(|why| Check::warning("brake", why)));
        checks.extend(facts.compared.map(ComparisonCounts::check));
        checks.extend(facts.undiscovered.iter().map(|part| {
            let Undiscovered { group, version, since, last_error } = part;
            let version = version.as_ref().map(|version| format!("/{version}")).unwrap_or_default();
            let why = format!("not discovered since {since}: {last_error}");
            Check::warning(format!("discovery/{group}{version}"), why)
        }));
        checks.extend(facts.monitors.iter().filter_map(|monitor| {
            let MonitorStatus { version, since, synced, last_error, .. } = monitor;
            let why = match (synced, last_error) {
                (true, None) => return None,
                (true, Some(error)) => {
                    format!("{version} has been synced since {since} but cannot be watched now: {error}")
                }
                (false, Some(error)) => format!("{version} has not been synced since {since}: {error}"),
                (false, None) => format!("{version} has not been synced since {since}: no error so far"),
            };
            Some(Check::warning(format!("monitor/{}", monitor.group_resource()), why))
        }));
        checks.extend(facts.ignored.iter().map(|ignored| Check::warning("ignored", ignored.as_str())));
        Self { checks }
    }

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

/// How often another collector did what the dry run decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonCounts {
    /// Decisions that the other collector carried out.
    pub agreed: u64,
    /// Decisions that it did not carry out in time.
    pub disagreed: u64,
}

impl fmt::Display for ComparisonCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} agreed, {} disagreed", self.agreed, self.disagreed)
    }
}

impl ComparisonCounts {
    /// The check of `/readyz`. A disagreement stays a warning until the process ends, because
    /// a person should look at it.
    fn check(self) -> Check {
        match self.disagreed {
            0 => Check::fine(format!("dry-run: {self}")),
            _ => Check::warning("dry-run", format!("{self}; see /debug/decisions")),
        }
    }
}

/// Whether all types are synced and watched, after the start. If not, a restart would not help,
/// and collection of all other types continues.
fn sync(monitors: &[MonitorStatus]) -> Check {
    let all = monitors.len();
    let unsynced = monitors.iter().filter(|monitor| !monitor.synced).map(|monitor| monitor.since);
    let failing = monitors.iter().filter(|monitor| monitor.synced && monitor.last_error.is_some());
    let failing = failing.map(|monitor| monitor.failing_since.unwrap_or(monitor.since));
    let problems = [
        (unsynced.clone().count(), unsynced.min(), "are not synced"),
        (failing.clone().count(), failing.min(), "cannot be watched now"),
    ];
    let problems: Vec<_> = problems
        .into_iter()
        .filter_map(|(count, first, what)| {
            first.map(|since| format!("{count} of {all} resource types {what}, the first since {since}"))
        })
        .collect();
    if problems.is_empty() { Check::fine("sync") } else { Check::warning("sync", problems.join("; ")) }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn types_that_cannot_be_watched_are_counted_and_dated() {
        let noon = Timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(12 * 3600));
        let monitor = |synced, last_error: Option<&str>, failing_since| MonitorStatus {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "pods".to_owned(),
            synced,
            since: Timestamp(SystemTime::UNIX_EPOCH),
            last_error: last_error.map(str::to_owned),
            failing_since,
        };
        let (fine, broken) = (monitor(true, None, None), monitor(true, Some("refused"), Some(noon)));
        assert_eq!(sync(std::slice::from_ref(&fine)), Check::fine("sync"));
        let one = "1 of 2 resource types cannot be watched now, the first since 1970-01-01T12:00:00Z";
        assert_eq!(sync(&[fine.clone(), broken.clone()]), Check::warning("sync", one));
        let both = "1 of 3 resource types are not synced, the first since 1970-01-01T00:00:00Z; \
                    1 of 3 resource types cannot be watched now, the first since 1970-01-01T12:00:00Z";
        assert_eq!(sync(&[fine, broken, monitor(false, None, None)]), Check::warning("sync", both));
    }

    #[test]
    fn a_collector_with_an_engaged_brake_is_ready_and_says_why_it_deletes_nothing() {
        let readiness = Readiness::assess(&Facts {
            discovery: Ok(()),
            started: true,
            since: Timestamp::now(),
            monitors: &[],
            undiscovered: &[],
            ignored: &[],
            refused: None,
            brake: Some("deletion is paused since noon"),
            compared: None,
            leadership: None,
        });
        assert!(readiness.ready());
        let page = readiness.verbose("readyz");
        assert!(page.contains("[!]brake warning: deletion is paused since noon\n"), "{page}");
    }

    #[test]
    fn a_disagreement_is_a_warning_and_no_reason_not_to_be_ready() {
        let line = |agreed, disagreed| {
            let readiness = Readiness { checks: vec![ComparisonCounts { agreed, disagreed }.check()] };
            assert!(readiness.ready());
            readiness.verbose("readyz").lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(line(3, 0), "[+]dry-run: 3 agreed, 0 disagreed ok");
        assert_eq!(line(3, 1), "[!]dry-run warning: 3 agreed, 1 disagreed; see /debug/decisions");
    }
}
