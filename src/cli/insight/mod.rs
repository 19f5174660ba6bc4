//! `kube-gc tree`, `explain`, `check`, `plan` and `stuck`: questions that are answered without writing
//! anything.

mod answer;
mod arguments;
mod check;
mod check_text;
mod explain;
mod explain_text;
mod names;
mod plan;
mod plan_text;
mod redraw;
mod source;
mod stuck;
mod stuck_text;
mod style;
mod table;
mod tree;
mod tree_text;

use std::io::{IsTerminal as _, Write as _};

use clap::Subcommand;
use kube_gc_core::text::escape::{Escaped, escape_json};
use kube_gc_insight::{Document, Unseen};
use serde::Serialize;

use super::exit::Exit;
use super::invoked::Invoked;
use super::report;
use crate::app::{Error, ErrorKind};
use crate::insight::{CollectorError, InsightError};

/// A question about a cluster.
#[derive(Clone, Debug, Subcommand)]
pub enum Question {
    /// Show what belongs to an object: owners above, dependents below
    Tree(tree::TreeArgs),
    /// Say why an object is still there, or why it goes
    Explain(explain::ExplainArgs),
    /// Find owner references that delete or keep objects by mistake
    Check(check::CheckArgs),
    /// Say what happens to every object if one is deleted
    Plan(plan::PlanArgs),
    /// Find what was deleted long ago and is still there, and what holds it
    Stuck(stuck::StuckArgs),
}

impl Question {
    /// Prints the answer.
    pub fn ask(&self) -> Exit {
        match self {
            Self::Tree(args) => tree::run(args),
            Self::Explain(args) => explain::run(args),
            Self::Check(args) => check::run(args),
            Self::Plan(args) => plan::run(args),
            Self::Stuck(args) => stuck::run(args),
        }
    }
}

/// How many things that could not be looked at are named to people.
const NAMED: usize = 6;

/// Writes to standard output. A reader that has gone is no error.
pub(super) fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::Internal, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Shows progress on standard error, if that is a terminal.
#[expect(clippy::print_stderr, reason = "for the person who waits")]
fn progress(done: usize, of: usize) {
    if std::io::stderr().is_terminal() {
        if done == of {
            eprint!("\r\u{1b}[K");
        } else {
            eprint!("\r\u{1b}[Klisted {done} of {of} types");
        }
    }
}

/// Reports why a command failed. 1 has another meaning in these commands.
fn failed(error: &Error) -> Exit {
    match report(error) {
        Exit::Failure => Exit::Unanswered,
        exit => exit,
    }
}

/// Why a question has no answer.
#[expect(clippy::print_stderr, reason = "these commands have no log")]
fn unanswered(error: &InsightError) -> Exit {
    match error {
        InsightError::NoSuchType(_) | InsightError::NoSuchObject(_) => {
            eprintln!("{}: {}", Invoked::detect().program(), Escaped(error));
            Exit::NoSuchObject
        }
        InsightError::Selector(_) => failed(&Error::new(ErrorKind::Settings, Escaped(error))),
        InsightError::Api(error) => failed(&Error::new(ErrorKind::Unreachable, error)),
        InsightError::Collector(error) => failed(&Error::new(kind_of(error), Escaped(error))),
        InsightError::Interrupted => failed(&Error::new(ErrorKind::Internal, error)),
    }
}

/// What kind of problem the error of a collector is.
const fn kind_of(error: &CollectorError) -> ErrorKind {
    match error {
        CollectorError::Unauthenticated { .. } => ErrorKind::Credentials,
        CollectorError::Forbidden { .. }
        | CollectorError::PodsForbidden(_)
        | CollectorError::ForwardForbidden(_) => ErrorKind::Forbidden,
        CollectorError::Unreachable { .. } | CollectorError::NotFound { .. } => ErrorKind::Unreachable,
        CollectorError::NotKubeGc { .. }
        | CollectorError::OtherVersion { .. }
        | CollectorError::Failed { .. } => ErrorKind::Internal,
    }
}

/// An answer as one line of JSON.
fn json(kind: &'static str, answer: &impl Serialize) -> Result<String, Error> {
    let document = Document::new(kind, answer);
    let text = serde_json::to_string(&document).map_err(|error| Error::new(ErrorKind::Internal, error))?;
    let mut line = String::with_capacity(text.len() + 1);
    // Writing to a string cannot fail.
    let _ = escape_json(&text, &mut line);
    line.push('\n');
    Ok(line)
}

/// What could not be looked at, in one line, and what else there is to say about where the answer is
/// from; empty if there is nothing.
fn footer(incomplete: &[Unseen], left_out: usize, note: Option<&str>) -> String {
    let mut parts = Vec::new();
    if !incomplete.is_empty() {
        let mut named: Vec<String> =
            incomplete.iter().take(NAMED).map(|Unseen { what, why }| format!("{what} ({why})")).collect();
        if incomplete.len() > NAMED {
            named.push(format!("and {} more", incomplete.len() - NAMED));
        }
        parts.push(format!("Not looked at: {}", Escaped(named.join("; "))));
    }
    if left_out > 0 {
        parts.push(format!("Left out on request: {left_out} types"));
    }
    parts.extend(note.map(|note| Escaped(note).to_string()));
    parts.into_iter().map(|part| part + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_once_and_on_one_line() {
        let unseen = |number: usize| Unseen { what: format!("t{number}"), why: "403\n\u{1b}[31m".into() };
        let text = footer(&(0..9).map(unseen).collect::<Vec<_>>(), 2, Some("From\nlists"));
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.starts_with(r"Not looked at: t0 (403\n\u{1b}[31m); t1 ") && text.contains("; and 3 more\n")
        );
        assert_eq!(footer(&[], 0, None), "");
    }
}
