//! `kube-gc check`: what is wrong with owner references.

use clap::{Args, ValueEnum};

use super::arguments::{ListsArgs, OUTPUT, ReachArgs, ScopeArgs};
use super::{Failed, Format, complete, framed, progress, show};
use crate::app::insight::ask;
use crate::cli::exit::Exit;
use crate::cli::text::{Cell, Colour, Look, kubectl_name, kubectl_names, line};
use kube_gc_insight::{CheckEffect, CheckReport, Class, EffectCounts, Finding, counted, counted_of};

/// The end of `kube-gc check --help`.
const EXAMPLES: &str = "\
Examples:
  Which owner references of a namespace are wrong?
    kube-gc check -n shop

  Fail in CI if anything in the cluster would be deleted
    kube-gc check -A --fail-on deletes

  The objects that would be deleted
    kube-gc check -A -o json | jq '.findings[] | select(.effect == \"deletes\") | .object'

The effect of an object is the verdict of the collector, whether one runs or not: the same code
decides. docs/check.md explains each class.";

/// The arguments of `kube-gc check`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::cli::exit::after(EXAMPLES, "check"))]
pub struct CheckArgs {
    #[command(flatten)]
    scope: ScopeArgs,

    /// Exit with 1 if there are findings with this effect or a worse one
    #[arg(long, help_heading = OUTPUT, value_name = "EFFECT", value_enum, default_value_t)]
    fail_on: FailOn,

    /// Format of the findings
    ///
    /// docs/schemas/check.json describes the JSON.
    #[arg(short, long, help_heading = OUTPUT, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    source: ListsArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

/// Which findings are a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// The collector deletes an object.
    Deletes,
    /// The same, or an object stays for ever.
    #[default]
    Leaks,
    /// Any finding.
    Odd,
    /// None.
    Never,
}

impl CheckArgs {
    /// Finds what is wrong with owner references.
    pub fn run(&self) -> Result<Exit, Failed> {
        let Self { scope, source, fail_on, output, reach } = self;
        source.refuse_a_collector()?;
        let query = scope.query(reach);
        let answer = ask(&reach.connection(scope.namespace.as_ref()), progress, async |session| {
            session.check(&query).await
        })??;
        let report = &answer.report;
        let names = || kubectl_names(report.findings.iter().map(|finding| &finding.object));
        show(*output, ("Check", &answer, (&answer.incomplete, answer.left_out)), names, || {
            let mut look = reach.look(*output);
            look.namespaces |= scope.all_namespaces;
            let mut text = table(report, &look) + &summary(report, answer.incomplete.is_empty());
            if let Some(advice) = report.advice() {
                line(&mut text, advice);
            }
            framed(&text, (&answer.incomplete, answer.left_out), None, &look)
        })?;
        if fail_on.is_met_by(report.broken_objects) {
            return Ok(Exit::Failure);
        }
        Ok(complete(answer.incomplete.is_empty()))
    }
}

impl FailOn {
    const fn is_met_by(self, found: EffectCounts) -> bool {
        let EffectCounts { deletes, leaks, unknown, odd } = found;
        match self {
            Self::Deletes => deletes > 0,
            Self::Leaks => deletes + leaks > 0,
            Self::Odd => deletes + leaks + unknown + odd > 0,
            Self::Never => false,
        }
    }
}

/// How many characters of a uid a table shows.
const SHORT_UID: usize = 4;

/// The findings for people, the worst first.
fn table(report: &CheckReport, look: &Look) -> String {
    let row = |finding: &Finding| {
        let Finding { effect, class, object, hint, .. } = finding;
        let colour = match effect {
            CheckEffect::Deletes => Colour::Red,
            CheckEffect::Leaks | CheckEffect::Unknown => Colour::Yellow,
            CheckEffect::Odd => Colour::Plain,
        };
        [
            Cell::new(object.namespace.as_deref().unwrap_or_default()),
            Cell::new(effect.into_str()).coloured(colour),
            Cell::new(class.into_str()),
            Cell::new(kubectl_name(object)),
            Cell::new(&object.uid),
            Cell::new(reference(finding, look.wide)),
            Cell::new(hint).coloured(Colour::Dim),
        ]
    };
    let (namespace, uid) = (look.namespaces.then_some("NAMESPACE"), look.wide.then_some("UID"));
    let names =
        [namespace, Some("EFFECT"), Some("CLASS"), Some("OBJECT"), uid, Some("REFERENCE"), Some("HINT")];
    let mut text = look.table(&names, report.findings.iter().map(row));
    let more = report.finding_count - report.findings.len();
    if more > 0 {
        text.push_str(&format!("And {}.\n", counted(more, "more finding")));
    }
    text
}

/// The owner as the reference names it, and what it may mean.
fn reference(finding: &Finding, wide: bool) -> String {
    let Finding { class, owner, found, .. } = finding;
    let shown = |uid: &str| match uid.char_indices().nth(SHORT_UID) {
        Some((end, _)) if !wide => format!("{}…", &uid[..end]),
        _ => uid.to_owned(),
    };
    let name = match class {
        Class::Unresolved | Class::UnservedVersion => format!("{} {owner}", owner.api_version),
        _ => format!("{owner} {}", shown(&owner.uid)),
    };
    let Some(found) = found else { return name };
    let uid = shown(&found.uid);
    match class {
        Class::Recreated => format!("{name}: that name is {uid} now"),
        Class::OtherNamespace => {
            let namespace = found.namespace.as_deref().unwrap_or_default();
            format!("{name}: that uid is in namespace {namespace}")
        }
        _ => format!("{name}: that uid is {found}"),
    }
}

/// What there is in all; at least that, if not all could be looked at.
pub fn summary(report: &CheckReport, is_all: bool) -> String {
    let (first, then) = if is_all { ("", "") } else { ("At least ", "at least ") };
    let CheckReport { broken_references: broken, references, broken_objects, .. } = report;
    if *broken == 0 {
        let all = counted(*references, "owner reference");
        return match is_all {
            true => format!("Nothing is wrong with {all}.\n"),
            false => format!("Found nothing wrong with {all}; not everything could be read.\n"),
        };
    }
    let of_all = counted_of(*broken, *references, "owner reference");
    let are = if *broken == 1 { "is" } else { "are" };
    let deletes = match broken_objects.deletes {
        0 if is_all => "nothing would be deleted".to_owned(),
        0 => "nothing that could be looked at would be deleted".to_owned(),
        1 => format!("{then}1 object would be deleted, and what it owns"),
        some => format!("{then}{} would be deleted, and what they own", counted(some, "object")),
    };
    format!("{first}{of_all} {are} wrong; {deletes}.\n")
}

/// `tests/insight` compares the table of docs/check.md with what the program prints.
#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, assert_harmless, look, object};
    use super::*;

    #[test]
    fn hostile_texts_stay_in_their_cell() {
        let finding = Finding {
            effect: CheckEffect::Deletes,
            class: Class::Recreated,
            object: object("ConfigMap", HOSTILE),
            owner: object(HOSTILE, "é\u{202e}\nlong"),
            found: Some(object(HOSTILE, HOSTILE)),
            served_as: None,
            hint: HOSTILE.into(),
            place: 0,
        };
        let report = CheckReport { findings: vec![finding], finding_count: 2, ..CheckReport::default() };
        for text in [table(&report, &look(false)), table(&report, &look(true))] {
            assert_harmless(&text, 3);
            assert!(text.ends_with("And 1 more finding.\n"), "{text}");
        }
    }

    #[test]
    fn the_summary_agrees_with_its_numbers() {
        let said = |broken_references, references, deletes, is_all| {
            let broken_objects = EffectCounts { deletes, ..EffectCounts::default() };
            let report =
                CheckReport { broken_references, references, broken_objects, ..CheckReport::default() };
            summary(&report, is_all)
        };
        for (answer, expected) in [
            (said(0, 0, 0, true), "Nothing is wrong with 0 owner references."),
            (said(0, 5_000, 0, true), "Nothing is wrong with 5,000 owner references."),
            (
                said(0, 1, 0, false),
                "Found nothing wrong with 1 owner reference; not everything could be read.",
            ),
            (said(1, 1, 1, true), "1 owner reference is wrong; 1 object would be deleted, and what it owns."),
            (said(1, 2, 0, true), "1 of 2 owner references is wrong; nothing would be deleted."),
            (
                said(2, 5_000, 2, false),
                "At least 2 of 5,000 owner references are wrong; at least 2 objects would be deleted, and what they own.",
            ),
        ] {
            assert_eq!(answer, format!("{expected}\n"));
        }
    }

    #[test]
    fn each_threshold_includes_what_is_worse() {
        let one = |deletes, leaks, unknown, odd| EffectCounts { deletes, leaks, unknown, odd };
        let kinds = [one(1, 0, 0, 0), one(0, 1, 0, 0), one(0, 0, 1, 0), one(0, 0, 0, 1), one(0, 0, 0, 0)];
        let met = |fail_on: FailOn| kinds.map(|found| fail_on.is_met_by(found));
        assert_eq!(met(FailOn::Deletes), [true, false, false, false, false]);
        assert_eq!(met(FailOn::Leaks), [true, true, false, false, false]);
        assert_eq!(met(FailOn::Odd), [true, true, true, true, false]);
        assert_eq!(met(FailOn::Never), [false; 5]);
    }
}
