//! The checks of `/readyz`.

use std::fmt::Write as _;

use super::{ComparisonCounts, MonitorStatus, Timestamp, Undiscovered};
use crate::telemetry::Escaped;

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

/// The role of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership<'a> {
    /// This replica holds the Lease and writes.
    Leader,
    /// Another replica writes.
    Standby {
        /// The holder of the Lease, if known.
        leader: Option<&'a str>,
    },
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
    /// The warnings of [`Settings::ignored_type_warnings`](crate::config::Settings::ignored_type_warnings).
    pub ignored: &'a [String],
    /// Why the brake is engaged; `None` if it is not.
    pub brake: Option<&'a str>,
    /// `None` without leader election.
    pub leadership: Option<Leadership<'a>>,
    /// `None` unless this is a dry run.
    pub compared: Option<ComparisonCounts>,
}

impl Readiness {
    /// The collector is ready once discovery has succeeded and the graph is synced or the
    /// start-up timeout has passed. A type that cannot sync, or a group that cannot be
    /// discovered, is only a warning: collection of all other types must not depend on it.
    #[must_use]
    pub fn assess(facts: &Facts<'_>) -> Self {
        let mut checks = Vec::new();
        checks.push(match facts.discovery {
            Ok(()) => Check::fine("discovery"),
            Err(why) => Check::failed("discovery", why),
        });
        let unsynced = facts.monitors.iter().filter(|monitor| !monitor.synced).count();
        checks.push(if facts.started && facts.discovery.is_ok() && unsynced == 0 {
            Check::fine("sync")
        } else if facts.started && facts.discovery.is_ok() {
            // A restart would not help, and collection of all other types continues.
            let since = facts.monitors.iter().filter(|monitor| !monitor.synced).map(|monitor| monitor.since);
            let since = since.min().unwrap_or(facts.since);
            let all = facts.monitors.len();
            Check::warning(
                "sync",
                format!("{unsynced} of {all} resource types are not synced, the first since {since}"),
            )
        } else if facts.discovery.is_err() {
            Check::failed("sync", format!("waiting for discovery since {}", facts.since))
        } else {
            let all = facts.monitors.len();
            Check::failed(
                "sync",
                format!("{unsynced} of {all} resource types are not synced, waiting since {}", facts.since),
            )
        });
        // A standby is ready. Otherwise, a rolling update would wait for it for ever.
        checks.extend(facts.leadership.map(|leadership| match leadership {
            Leadership::Leader => Check::fine("leadership: leader"),
            Leadership::Standby { leader: Some(leader) } => {
                Check::fine(format!("leadership: standby of {leader}"))
            }
            Leadership::Standby { leader: None } => Check::fine("leadership: standby, leader unknown"),
        }));
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
    #[must_use]
    pub fn ready(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.outcome != Outcome::Failed)
    }

    /// One line for each check, in the format of Kubernetes' own servers, with `[!]` for
    /// warnings, which those do not have.
    #[must_use]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whose_brake_is_engaged_is_ready_and_says_why_it_deletes_nothing() {
        let readiness = Readiness::assess(&Facts {
            discovery: Ok(()),
            started: true,
            since: Timestamp::now(),
            monitors: &[],
            undiscovered: &[],
            ignored: &[],
            brake: Some("deletion is paused since noon"),
            compared: None,
            leadership: None,
        });
        assert!(readiness.ready());
        let page = readiness.verbose("readyz");
        assert!(page.contains("[!]brake warning: deletion is paused since noon\n"), "{page}");
    }
}
