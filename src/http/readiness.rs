//! What "ready" means.

use std::fmt::Write as _;

use super::{Compared, MonitorStatus, Timestamp, Undiscovered};
use crate::telemetry::Escaped;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be.
    Fine,
    /// Somebody should look, but the collector does its work for all else.
    Warning,
    /// Not ready.
    Failed,
}

/// One line of `/readyz?verbose`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// How it came out.
    pub outcome: Outcome,
    /// Why, unless it is fine.
    pub message: String,
}

impl Check {
    /// Fine.
    pub fn fine(name: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::Fine, message: String::new() }
    }

    /// Not fine, and no reason not to be ready.
    pub fn warning(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::Warning, message: message.into() }
    }

    /// Not ready.
    pub fn failed(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::Failed, message: message.into() }
    }
}

/// Whether the collector can do its work, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// In the order in which they are shown.
    pub checks: Vec<Check>,
}

/// What this process is among several replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership<'a> {
    /// The one that writes.
    Leader,
    /// Another one writes.
    Standby {
        /// Who, if that is known.
        leader: Option<&'a str>,
    },
}

/// What readiness follows from.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// `Ok` once discovery has worked; else what it says, or that it has not ended.
    pub discovery: Result<(), &'a str>,
    /// Whether every monitor was synced at some time, or the start-up timeout
    /// has passed: whether the workers have started.
    pub started: bool,
    /// When the process began.
    pub since: Timestamp,
    /// Every monitor.
    pub monitors: &'a [MonitorStatus],
    /// What cannot be discovered.
    pub undiscovered: &'a [Undiscovered],
    /// Of [`Settings::ignored_type_warnings`](crate::config::Settings::ignored_type_warnings).
    pub ignored: &'a [String],
    /// Why nothing is deleted, while the brake is engaged.
    pub brake: Option<&'a str>,
    /// `None` if there are no replicas.
    pub leadership: Option<Leadership<'a>>,
    /// `None` unless this is a dry run.
    pub compared: Option<Compared>,
}

impl Readiness {
    /// Ready once discovery has worked and the graph is synced or the start-up
    /// timeout has passed. A type that cannot sync does not change that: the
    /// collection of all others must not depend on it. It is named, and so is a
    /// group that cannot be discovered.
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
            // A restart would not help, and the collection of all others goes on.
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
        // A standby is ready to take over: were it not, an update that replaces one
        // replica after the other would wait for it for ever.
        checks.extend(facts.leadership.map(|leadership| match leadership {
            Leadership::Leader => Check::fine("leadership: leader"),
            Leadership::Standby { leader: Some(leader) } => {
                Check::fine(format!("leadership: standby of {leader}"))
            }
            Leadership::Standby { leader: None } => Check::fine("leadership: standby, no leader is known"),
        }));
        checks.extend(facts.brake.map(|why| Check::warning("brake", why)));
        checks.extend(facts.compared.map(Compared::check));
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
                    format!("{version} was synced at {since} and cannot be watched now: {error}")
                }
                (false, Some(error)) => format!("{version} is not synced since {since}: {error}"),
                (false, None) => format!("{version} is not synced since {since}: no error so far"),
            };
            Some(Check::warning(format!("monitor/{}", monitor.group_resource()), why))
        }));
        checks.extend(facts.ignored.iter().map(|ignored| Check::warning("ignored", ignored.as_str())));
        Self { checks }
    }

    /// Whether nothing has failed.
    #[must_use]
    pub fn ready(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.outcome != Outcome::Failed)
    }

    /// One line for each check, the way Kubernetes' own servers write them, and
    /// `[!]` for warnings, which these do not have.
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
