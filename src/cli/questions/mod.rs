//! `kube-gc tree`, `explain`, `check`, `plan` and `stuck`: questions that are answered without writing
//! anything. One file a command, with its arguments and its text.

mod arguments;
mod check;
mod explain;
mod plan;
mod stuck;
mod tree;

use std::io::IsTerminal as _;

use clap::{Subcommand, ValueEnum};
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::{Document, Unseen};
use serde::Serialize;

use super::exit::Exit;
use super::invoked::Invoked;
use super::text::{self, print};
use crate::app::insight::{self, Connection};
use crate::app::{Error, ErrorKind};
use crate::insight::{Collector, CollectorError, InsightError, Session, Source};

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
    /// Prints the answer, or why there is none.
    #[expect(clippy::print_stderr, reason = "these commands have no log")]
    pub fn ask(&self) -> Exit {
        let answered = match self {
            Self::Tree(args) => args.run(),
            Self::Explain(args) => args.run(),
            Self::Check(args) => args.run(),
            Self::Plan(args) => args.run(),
            Self::Stuck(args) => args.run(),
        };
        answered.unwrap_or_else(|Failed { exit, message }| {
            eprintln!("{}: {message}", Invoked::detect().program());
            exit
        })
    }
}

/// Why a command has no answer.
#[derive(Debug)]
pub struct Failed {
    exit: Exit,
    message: String,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        // 1 has another meaning in these commands.
        let exit = match Exit::from(error.kind()) {
            Exit::Failure => Exit::Unanswered,
            exit => exit,
        };
        Self { exit, message: error.to_string() }
    }
}

impl From<InsightError> for Failed {
    fn from(error: InsightError) -> Self {
        let exit = match &error {
            InsightError::NoSuchType(_) | InsightError::NoSuchObject(_) | InsightError::NotInGraph(_) => {
                Exit::NoSuchObject
            }
            InsightError::Selector(_) => Exit::Usage,
            InsightError::Api(_) => Exit::Unreachable,
            InsightError::Interrupted => Exit::Unanswered,
            InsightError::Collector(error) => match error {
                CollectorError::Unauthenticated { .. } => Exit::Credentials,
                CollectorError::Forbidden { .. }
                | CollectorError::PodsForbidden(_)
                | CollectorError::ForwardForbidden(_) => Exit::Forbidden,
                CollectorError::Unreachable { .. } | CollectorError::NotFound { .. } => Exit::Unreachable,
                CollectorError::NotKubeGc { .. }
                | CollectorError::OtherVersion { .. }
                | CollectorError::Failed { .. } => Exit::Unanswered,
            },
        };
        Self { exit, message: Escaped(error).to_string() }
    }
}

/// Wrong arguments.
fn usage(why: impl std::fmt::Display) -> Failed {
    Error::new(ErrorKind::Settings, why).into()
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    #[default]
    Table,
    /// The same with more detail, such as uids.
    Wide,
    /// One line of JSON.
    Json,
    /// Only the names of objects.
    Name,
}

/// The exit code of an answer with nothing to report.
const fn complete(is_complete: bool) -> Exit {
    if is_complete { Exit::Success } else { Exit::Incomplete }
}

/// Asks the collector that a source stands for, or lists, and says where the answer is from.
fn ask<A>(
    connection: &Connection,
    source: &Source,
    of_collector: impl AsyncFnOnce(&Session, &Collector) -> Result<A, InsightError>,
    of_lists: impl AsyncFnOnce(&Session) -> Result<A, InsightError>,
) -> Result<(A, Option<String>), Failed> {
    Ok(insight::ask(connection, progress, async |session| {
        session.answer(source, of_collector, of_lists).await
    })??)
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

/// Prints an answer: as JSON of a kind, as names of objects, or as text.
fn show(
    output: Format,
    (kind, answer): (&'static str, &impl Serialize),
    names: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
) -> Result<(), Failed> {
    print(&match output {
        Format::Json => json(kind, answer)?,
        Format::Name => names(),
        Format::Table | Format::Wide => text(),
    })?;
    Ok(())
}

/// An answer as one line of JSON.
fn json(kind: &'static str, answer: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(&Document::new(kind, answer));
    Ok(text::json(&text.map_err(|error| Error::new(ErrorKind::Internal, error))?))
}

/// How many things that could not be looked at are named to people.
const NAMED: usize = 6;

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
    use crate::cli::text::Look;
    use kube_gc_insight::ObjectName;

    pub const HOSTILE: &str = "a\"];\n b \u{1b}[31m\\\u{202e}";

    pub fn object(kind: &str, name: &str) -> ObjectName {
        ObjectName {
            api_version: "apps/v1".into(),
            kind: kind.into(),
            resource: Some(format!("{}s.apps", kind.to_lowercase())),
            namespace: Some("shop".into()),
            name: name.into(),
            uid: format!("uid-{name}"),
        }
    }

    pub fn look(wide: bool) -> Look {
        Look::plain(wide, "2026-01-01T00:12:00Z")
    }

    /// Fails if a text controls a terminal, or has more lines than this.
    pub fn assert_harmless(text: &str, lines: usize) {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        assert!(text.lines().count() <= lines, "{text}");
    }

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
