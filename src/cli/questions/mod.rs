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
use kube_gc_insight::{Document, Unseen, counted};
use serde::Serialize;

use super::exit::Exit;
use super::invoked::Invoked;
use super::text::{self, Look, print};
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
            InsightError::NoSuchType(_)
            | InsightError::NotCollected(_)
            | InsightError::NoSuchObject(_)
            | InsightError::NotInGraph(_) => Exit::NoSuchObject,
            InsightError::Selector(_) => Exit::Usage,
            InsightError::Forbidden(_) => Exit::Forbidden,
            InsightError::UnreadType { .. } => Exit::Incomplete,
            InsightError::Api(_) => Exit::Unreachable,
            InsightError::Interrupted => Exit::Unanswered,
            InsightError::Collector(error) => match error {
                CollectorError::Unauthenticated { .. } => Exit::Credentials,
                CollectorError::Forbidden { .. }
                | CollectorError::PodsForbidden(_)
                | CollectorError::ForwardForbidden(_) => Exit::Forbidden,
                CollectorError::Unreachable { .. }
                | CollectorError::NotFound { .. }
                | CollectorError::NotKubeGc { .. }
                | CollectorError::OtherCluster { .. }
                | CollectorError::Unverified { .. }
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

/// Says beside the names of objects what could not be looked at.
#[expect(clippy::print_stderr, reason = "standard output has the names")]
fn aside(unseen: (&[Unseen], usize)) {
    eprint!("{}", framed("", unseen, None, &Look::new(false, true)));
}

/// Prints an answer: as JSON of a kind, as names of objects, or as text.
fn show(
    output: Format,
    (kind, answer, unseen): (&'static str, &impl Serialize, (&[Unseen], usize)),
    names: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
) -> Result<(), Failed> {
    if output == Format::Name {
        aside(unseen);
    }
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

/// How many things that could not be looked at for the same reason are named to people.
const NAMED: usize = 3;
/// How many reasons are told.
const REASONS: usize = 3;

/// What could not be looked at, in a line for each reason; empty if there is nothing. In an answer with more
/// detail, all of it.
fn unseen(incomplete: &[Unseen], wide: bool) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for Unseen { what, why } in incomplete {
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, parts)) => parts.push(what),
            None => reasons.push((why, vec![what])),
        }
    }
    if !wide && reasons.len() > REASONS {
        // Who may do little is refused each type by its name.
        let (denied, others): (Vec<_>, Vec<_>) =
            reasons.into_iter().partition(|(why, _)| why.ends_with("(403)"));
        let is_to = |verb: &str| denied.iter().all(|(why, _)| why.contains(verb));
        let may_not = match (is_to(" get "), is_to(" list ")) {
            (true, _) => "you may not get these (403)",
            (_, true) => "you may not list these (403)",
            (..) => "you may not get or list these (403)",
        };
        let denied: Vec<&str> = denied.into_iter().flat_map(|(_, parts)| parts).collect();
        let denied = (!denied.is_empty()).then_some((may_not, denied));
        reasons = denied.into_iter().chain(others).collect();
    }
    let (most, more) = if wide { (usize::MAX, reasons.len()) } else { (NAMED, REASONS) };
    let lines = reasons.iter().take(more).map(|(why, parts)| {
        let mut named = parts.iter().take(most).copied().collect::<Vec<_>>().join(", ");
        if parts.len() > most {
            named.push_str(&format!(" and {} more (-o wide names all)", parts.len() - most));
        }
        format!("Not looked at: {}\n", Escaped(format_args!("{named}: {why}")))
    });
    let mut text: String = lines.collect();
    if reasons.len() > more {
        let left: usize = reasons.iter().skip(more).map(|(_, parts)| parts.len()).sum();
        text.push_str(&format!("Not looked at: {left} more, for other reasons (-o wide names all)\n"));
    }
    text
}

/// An answer after what could not be looked at, and before what was left out and where it is from.
fn framed(
    answer: &str,
    (incomplete, left_out): (&[Unseen], usize),
    note: Option<&str>,
    look: &Look,
) -> String {
    let mut text = unseen(incomplete, look.wide) + answer;
    if left_out > 0 {
        text.push_str(&format!("Left out on request: {}\n", counted(left_out, "type")));
    }
    text.extend(note.map(|note| format!("{}\n", Escaped(note))));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn what_is_missing_is_named_by_its_reason_and_on_one_line() {
        let unseen_for = |why: &str, count| {
            let why = why.to_owned();
            (0..count).map(move |number| Unseen { what: format!("t{number}"), why: why.clone() })
        };
        let hostile = "403\n\u{1b}[31m";
        let all: Vec<Unseen> = unseen_for(hostile, 5).chain(unseen_for("503", 1)).collect();
        assert_eq!(
            framed("answer\n", (&all, 1), Some("From\nlists"), &look(false)),
            "Not looked at: t0, t1, t2 and 2 more (-o wide names all): 403\\n\\u{1b}[31m\nNot looked at: t0: 503\n\
             answer\nLeft out on request: 1 type\nFrom\\nlists\n"
        );
        let many: Vec<Unseen> = (0..9).flat_map(|why| unseen_for(&why.to_string(), 2)).collect();
        let text = unseen(&many, false);
        assert!(text.lines().count() == 4 && text.contains(": 12 more, for other reasons"), "{text}");
        assert_eq!(unseen(&many, true).lines().count(), 9);
        let denied = |number| unseen_for(&format!("not allowed to get t{number} (403)"), 1);
        let mut denied: Vec<Unseen> = (0..9).flat_map(|number| denied(number).collect::<Vec<_>>()).collect();
        for (count, verbs) in [(6, "get"), (7, "get or list")] {
            assert_eq!(
                unseen(&denied, false),
                format!(
                    "Not looked at: t0, t0, t0 and {count} more (-o wide names all): you may not {verbs} these (403)\n"
                )
            );
            denied.extend(unseen_for("you may not list this (403)", 1));
        }
        assert_eq!(framed("", (&[], 0), None, &look(true)), "");
    }
}
