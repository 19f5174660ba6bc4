//! `kube-gc stuck`.

use std::time::{Duration, SystemTime};

use clap::Args;

use super::answer::Format;
use super::arguments::ScopeArgs;
use super::source::{Auto, SourceArgs, ask};
use super::style::Style;
use super::{answer, footer, stuck_text};
use crate::app::Error;
use crate::cli::exit::Exit;
use crate::insight::{Source, StuckAnswer, StuckQuery};

/// The end of `kube-gc stuck --help`.
const EXAMPLES: &str = "\
Examples:
  What in a namespace does not go?
    kube-gc stuck -n shop

  What has not gone for an hour, in the whole cluster
    kube-gc stuck -A --older 1h

  The objects that hold the others
    kube-gc stuck -n shop -o name

docs/stuck.md explains each cause. `kube-gc explain` says more about one object.";

/// The arguments of `kube-gc stuck`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", crate::cli::exit::HELP))]
pub struct StuckArgs {
    #[command(flatten)]
    scope: ScopeArgs,

    #[command(flatten)]
    source: SourceArgs,

    /// How long ago an object must have been deleted
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = humantime::parse_duration)]
    older: Duration,

    /// Format of the answer
    ///
    /// docs/schemas/stuck.json describes the JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

/// Finds what was deleted long ago and is still there.
pub fn run(args: &StuckArgs) -> Exit {
    answer::run(|| found(args))
}

fn found(args: &StuckArgs) -> Result<Exit, Error> {
    let now = SystemTime::now();
    let query = StuckQuery {
        everywhere: args.scope.all_namespaces,
        filter: args.scope.filter(),
        selector: args.scope.selector.clone(),
        older: args.older,
    };
    let source = args.source(&query)?;
    let answer = ask(
        &args.scope.connection(),
        &source,
        async |session, collector, watcher| session.stuck_from(collector, &query, watcher).await,
        async |session, watcher| session.stuck(&query, watcher).await,
    )?;
    answer::end(
        answer,
        |(answer, note)| args.written(answer, now, note.as_deref()),
        |(answer, _)| {
            if answer.report.stuck > 0 {
                Exit::Failure
            } else {
                answer::complete(answer.incomplete.is_empty())
            }
        },
    )
}

impl StuckArgs {
    /// A collector has no lists of which types could be left out, and no labels.
    fn source(&self, query: &StuckQuery) -> Result<Source, Error> {
        let why = match (query.filter.is_empty(), &query.selector) {
            (true, None) => return self.source.source(Auto::Looks),
            (true, Some(_)) => "a collector knows no labels, so --selector needs --from lists",
            (false, _) => "--kinds and --exclude choose what is listed, so they need --from lists",
        };
        self.source.only_lists(why)
    }

    fn written(&self, answer: &StuckAnswer, now: SystemTime, note: Option<&str>) -> Result<String, Error> {
        let names = |answer: &StuckAnswer| stuck_text::names(&answer.report);
        self.output.write("Stuck", answer, names, |answer, wide| {
            let look = stuck_text::Look {
                wide,
                namespaces: self.scope.all_namespaces,
                headers: self.scope.headers(),
                style: Style::detect(),
                now,
            };
            let older = humantime::format_duration(self.older).to_string();
            stuck_text::summary(&answer.report, &older)
                + &stuck_text::text(&answer.report, &look)
                + &footer(&answer.incomplete, answer.left_out, note)
        })
    }
}
