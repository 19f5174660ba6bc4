//! `kube-gc stuck`: what was deleted long ago and is still there.

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;

use super::arguments::{Auto, OBJECT, OUTPUT, ReachArgs, ScopeArgs, SourceArgs};
use super::{Failed, Format, ask, complete, framed, show};
use crate::cli::exit::Exit;
use crate::cli::text::{Cell, Colour, Look, kubectl_name, kubectl_names, line};
use crate::insight::{QueryScope, Source};
use kube_gc_core::text::Thousands;
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::{StuckGroup, StuckReport, counted, counted_of};

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
#[command(after_long_help = crate::cli::exit::after(EXAMPLES, "stuck"))]
pub struct StuckArgs {
    #[command(flatten)]
    scope: ScopeArgs,

    /// How long ago an object must have been deleted
    #[arg(long, help_heading = OBJECT, value_name = "DURATION", default_value = "1m", value_parser = humantime::parse_duration)]
    older: Duration,

    /// Format of the answer
    ///
    /// docs/schemas/stuck.json describes the JSON.
    #[arg(short, long, help_heading = OUTPUT, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

impl StuckArgs {
    /// Finds what was deleted long ago and is still there.
    pub fn run(&self) -> Result<Exit, Failed> {
        let Self { scope, older, output, reach, .. } = self;
        let query = scope.query(reach);
        let (answer, note) = ask(
            &reach.connection(scope.namespace.as_ref()),
            &self.source(&query)?,
            async |session, collector| session.stuck_from(collector, &query, *older).await,
            async |session| session.stuck(&query, *older).await,
        )?;
        let report = &answer.report;
        show(
            *output,
            ("Stuck", &answer, (&answer.incomplete, answer.left_out)),
            || names(report),
            || {
                let mut look = reach.look(*output).at(report.as_of.as_deref());
                look.namespaces = scope.all_namespaces;
                let (asked, is_all) = ((*older, query.selector.as_deref()), answer.incomplete.is_empty());
                let text = summary(report, asked, is_all, &look) + &text(report, &look);
                framed(&text, (&answer.incomplete, answer.left_out), note.as_deref(), &look)
            },
        )?;
        Ok(if report.stuck + report.unfinished > 0 {
            Exit::Failure
        } else {
            complete(answer.incomplete.is_empty())
        })
    }

    /// A collector has no lists of which types could be left out, and no labels.
    fn source(&self, query: &QueryScope) -> Result<Source, Failed> {
        let why = match (query.filter.is_empty(), &query.selector) {
            (true, None) => return self.source.source(Auto::Looks),
            (true, Some(_)) => "a collector knows no labels, so --selector needs --from lists",
            (false, _) => "--kinds and --exclude choose what is listed, so they need --from lists",
        };
        self.source.only_lists(why)
    }
}

/// What holds objects, that of most objects first; then what to do.
fn text(report: &StuckReport, look: &Look) -> String {
    let mut text = String::new();
    let namespace = look.namespaces.then_some("NAMESPACE");
    let names = [namespace, Some("STUCK"), Some("OLDEST"), Some("CAUSE")];
    look.section(&mut text, &names, report.groups.iter().map(|group| row(group, look)));
    if look.wide {
        text.push_str(&objects(report, look));
    }
    if !report.advice.is_empty() {
        text.push('\n');
    }
    for advice in &report.advice {
        line(&mut text, advice);
    }
    text
}

fn row(group: &StuckGroup, look: &Look) -> [Cell; 4] {
    let of = group.holders.first().or_else(|| group.objects.first());
    let namespaces: HashSet<_> = group.holders.iter().map(|holder| &holder.namespace).collect();
    let namespace = of.and_then(|object| object.namespace.as_deref()).unwrap_or_default();
    let oldest = group.oldest.as_deref().and_then(|time| look.age(time));
    [
        Cell::new(if namespaces.len() > 1 { "(several)" } else { namespace }),
        Cell::new(Thousands(group.object_count)).coloured(Colour::Yellow),
        Cell::new(oldest.unwrap_or_default()),
        Cell::new(&group.sentence),
    ]
}

/// The first objects that wait for each cause.
fn objects(report: &StuckReport, look: &Look) -> String {
    let mut text = String::new();
    for group in &report.groups {
        text += &format!("\n{}:\n", Escaped(&group.sentence));
        let rows = group.objects.iter().map(|object| {
            let namespace = object.namespace.as_deref().unwrap_or_default();
            vec![
                Cell::new(format!("  {}", kubectl_name(object))),
                Cell::new(namespace),
                Cell::new(&object.uid),
            ]
        });
        text.push_str(&look.columns(&rows.collect::<Vec<_>>()));
        let more = group.object_count - group.objects.len();
        if more > 0 {
            line(&mut text, format_args!("  and {} more", Thousands(more)));
        }
    }
    text
}

/// The answer in one line.
pub fn summary(
    report: &StuckReport,
    (older, selector): (Duration, Option<&str>),
    is_all: bool,
    look: &Look,
) -> String {
    let StuckReport { stuck, unfinished, being_deleted, oldest, .. } = report;
    let at_least = if is_all { "" } else { "at least " };
    let mut text = String::new();
    if *stuck > 0 {
        let objects = counted_of(*stuck, *being_deleted, "object");
        // "1 object is", "1 of 2 objects that are being deleted is".
        let of = if stuck == being_deleted { "" } else { " that are being deleted" };
        let are = if *stuck == 1 { "is" } else { "are" };
        let older = humantime::format_duration(older);
        text = format!("{at_least}{objects}{of} {are} stuck: deleted more than {older} ago.");
    } else if *unfinished == 0 {
        let with = selector.map(|selector| format!(" with the labels {selector}")).unwrap_or_default();
        let seen = if is_all { "" } else { " that could be looked at" };
        text.push_str(&Escaped(format_args!("Nothing{with}{seen} is stuck.")).to_string());
        let (are, first) = if *being_deleted == 1 { ("is", "") } else { ("are", "the oldest ") };
        let oldest = oldest.as_deref().and_then(|oldest| look.age(oldest));
        let oldest = oldest.map(|age| format!(", {first}for {age}")).unwrap_or_default();
        if *being_deleted > 0 {
            let objects = counted(*being_deleted, "object");
            text.push_str(&format!(" {at_least}{objects} {are} being deleted{oldest}."));
        }
    }
    if *unfinished > 0 {
        let objects = counted(*unfinished, "object");
        text.push_str(&format!(" The collector cannot finish with {objects}."));
    }
    text.trim_start().replace("at least", "At least") + "\n"
}

/// The names of the objects that hold others.
fn names(report: &StuckReport) -> String {
    kubectl_names(report.groups.iter().flat_map(|group| &group.holders))
}

/// `tests/insight` compares the table of docs/stuck.md with what the program prints.
#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, assert_harmless, look, object};
    use super::*;

    /// As of the pages and the metrics of a collector.
    #[test]
    fn what_is_stuck_was_deleted_more_than_a_minute_ago() {
        use clap::Args as _;
        let command = StuckArgs::augment_args(clap::Command::new("stuck"));
        let older = command.get_matches_from(["stuck"]).remove_one::<Duration>("older");
        assert_eq!(older, Some(kube_gc_observe::telemetry::StuckReason::OLD));
    }

    #[test]
    fn the_summary_agrees_with_its_numbers() {
        let said = |stuck, being_deleted, unfinished, is_all| {
            let oldest = (being_deleted > 0).then(|| "2026-01-01T00:11:17Z".to_owned());
            let report = StuckReport { stuck, being_deleted, unfinished, oldest, ..StuckReport::default() };
            summary(&report, (Duration::from_secs(60), None), is_all, &look(false))
        };
        let stuck = |begin: &str| format!("{begin} stuck: deleted more than 1m ago.\n");
        for (answer, expected) in [
            (said(0, 0, 0, true), "Nothing is stuck.\n".to_owned()),
            (said(0, 1, 0, true), "Nothing is stuck. 1 object is being deleted, for 43s.\n".to_owned()),
            (
                said(0, 1_200, 0, true),
                "Nothing is stuck. 1,200 objects are being deleted, the oldest for 43s.\n".to_owned(),
            ),
            (said(0, 0, 0, false), "Nothing that could be looked at is stuck.\n".to_owned()),
            (said(1, 1, 0, true), stuck("1 object is")),
            (said(1, 2, 0, true), stuck("1 of 2 objects that are being deleted is")),
            (said(2, 5_000, 0, true), stuck("2 of 5,000 objects that are being deleted are")),
            (said(2, 2, 0, false), stuck("At least 2 objects are")),
            (said(0, 0, 1, true), "The collector cannot finish with 1 object.\n".to_owned()),
        ] {
            assert_eq!(answer, expected);
        }
    }

    #[test]
    fn hostile_texts_stay_on_their_line() {
        let group = StuckGroup {
            cause: "finalizers".into(),
            sentence: HOSTILE.into(),
            holders: vec![object(HOSTILE, HOSTILE)],
            holder_count: 1,
            objects: vec![object("ConfigMap", "receipt")],
            object_count: 41,
            oldest: Some("2026-01-01T00:00:00Z".into()),
            finalizers: Vec::new(),
            advice: Vec::new(),
        };
        let advice = vec!["once".to_owned(), HOSTILE.to_owned()];
        let report = StuckReport { groups: vec![group.clone(), group], advice, ..StuckReport::default() };
        let text = text(&report, &look(true));
        assert_harmless(&text, 15);
        assert!(text.contains("\nonce\na"), "{text}");
        assert!(text.contains("\n  configmap.apps/receipt  shop  uid-receipt\n  and 40 more\n"), "{text}");
        assert_harmless(&names(&report), 1);
    }
}
