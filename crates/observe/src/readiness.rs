//! Whether a collector can work: the checks of `/readyz`.

use std::fmt::Write as _;

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
