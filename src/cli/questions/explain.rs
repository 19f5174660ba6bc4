//! `kube-gc explain`: why an object is still there.

use clap::Args;

use super::arguments::{Auto, CommonArgs, OUTPUT, ReachArgs, SourceArgs};
use super::{Failed, Format, ask, complete, framed, show};
use crate::cli::exit::Exit;
use crate::cli::text::{Cell, Colour, Look, kubectl_names, line};
use crate::insight::{Decision, ExplainAnswer, Stuck};
use kube_gc_core::text::escape::Escaped;
use kube_gc_core::text::{Thousands, listed};
use kube_gc_core::verdict::ReferenceClass;
use kube_gc_insight::{
    Evidence, Explanation, FinalizerReport, HeldObjects, Hold, JudgedReference, Leaf, Outcome, counted,
};

/// The end of `kube-gc explain --help`.
const EXAMPLES: &str = "\
Examples:
  Why is this pod not gone?
    kube-gc explain pod/web-7d9-x -n shop

  What will happen to it, for a script
    kube-gc explain pod/web-7d9-x -n shop -o json | jq -r .outcome

The verdict is that of the collector, whether one runs or not: the same code decides.
docs/explain.md explains each part of the answer.";

/// The arguments of `kube-gc explain`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::cli::exit::after(EXAMPLES, "explain"))]
pub struct ExplainArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Format of the answer
    ///
    /// docs/schemas/explanation.json describes the JSON.
    #[arg(short, long, help_heading = OUTPUT, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

impl ExplainArgs {
    /// Explains an object.
    pub fn run(&self) -> Result<Exit, Failed> {
        let Self { common, source, output, reach } = self;
        let (object, filter) = (common.object()?, reach.filter());
        let (explained, note) = ask(
            &reach.connection(common.namespace.as_ref()),
            &source.source(Auto::Looks)?,
            async |session, collector| session.explain_from(collector, &object).await,
            async |session| session.explain(&object, &filter).await,
        )?;
        let (answer, explanation) = (&explained.answer, &explained.answer.report);
        // The objects that hold it.
        let names = || kubectl_names(explanation.chain.leaves.iter().map(|leaf| &leaf.object));
        show(*output, ("Explanation", &explained, (&answer.incomplete, answer.left_out)), names, || {
            let look = reach.look(*output).at(explanation.as_of.as_deref());
            let text = text(explanation, &look) + &of_collector(&explained, &look);
            framed(&text, (&answer.incomplete, answer.left_out), note.as_deref(), &look)
        })?;
        if explained.is_denied {
            return Ok(Exit::Forbidden);
        }
        Ok(complete(!explanation.depends_on_unseen))
    }
}

/// An explanation for people: the verdict first, then what it rests on, then what to do.
fn text(explanation: &Explanation, look: &Look) -> String {
    let colour = match explanation.outcome {
        Outcome::Stays | Outcome::LosesReferences => Colour::Bold,
        Outcome::Goes | Outcome::Waits | Outcome::StaysForNow => Colour::Yellow,
        Outcome::Undecided | Outcome::Absent | Outcome::Unknown => Colour::Red,
    };
    let mut text = look.paint(colour, &Escaped(&explanation.verdict).to_string()) + "\n";
    if let Some(age) = explanation.deleted.as_deref().and_then(|time| look.age(time)) {
        line(&mut text, format_args!("It was deleted {age} ago."));
    }
    references(&mut text, explanation, look);
    finalizers(&mut text, &explanation.finalizers, look);
    chain(&mut text, explanation, look);
    namespace(&mut text, explanation, look);
    if !explanation.advice.is_empty() {
        text.push('\n');
    }
    for advice in &explanation.advice {
        line(&mut text, advice);
    }
    text
}

/// What a collector has done about the object; empty if lists were asked.
fn of_collector(answer: &ExplainAnswer, look: &Look) -> String {
    let mut text = String::new();
    // The verdict may have the words of the API server.
    let new = |words: &str| {
        if answer.answer.report.verdict.contains(words) { String::new() } else { format!(": {words}") }
    };
    if let Some(Decision { at, action, outcome, error }) = answer.decisions.iter().flatten().next() {
        let error = error.as_deref().map(new).unwrap_or_default();
        let action = action.replace('_', " ");
        let outcome = match outcome.as_str() {
            "dry_run" => "dry run: nothing was sent".to_owned(),
            outcome => outcome.replace('_', " "),
        };
        let who = look.age(at).map_or_else(|| "The".to_owned(), |age| format!("{age} ago the"));
        let last = format!("{who} collector decided about it: {action} ({outcome}{error}).");
        text += &format!("\n{}\n", Escaped(last));
    }
    if let Some(Stuck { reason, since, attempts, next_retry_seconds, message, hint }) = &answer.stuck {
        let attempts = attempts.map(|count| format!(" after {}", counted(count as usize, "attempt")));
        let attempts = attempts.unwrap_or_default();
        let next = match next_retry_seconds {
            Some(seconds) if *seconds >= 1.0 => format!(" It tries again in {seconds:.0} s."),
            Some(_) => " It tries again now.".to_owned(),
            None => String::new(),
        };
        let since = look.age(since).map(|age| format!(", for {age}")).unwrap_or_default();
        let message = new(message);
        let stuck = format!("The collector cannot finish with it{attempts} ({reason}{since}){message}.");
        text += &format!("\n{}{next}\nWhat to do: {}.\n", Escaped(stuck), Escaped(hint));
    }
    text
}

fn references(text: &mut String, explanation: &Explanation, look: &Look) {
    let row = |reference: &JudgedReference| {
        let colour = match reference.class {
            ReferenceClass::Solid => Colour::Plain,
            ReferenceClass::Waiting | ReferenceClass::Orphaned => Colour::Yellow,
            ReferenceClass::Absent | ReferenceClass::Unresolved | ReferenceClass::InvalidScope => Colour::Red,
        };
        let flags = match (reference.controller, reference.block_owner_deletion) {
            (true, true) => "controller,blocking",
            (true, false) => "controller",
            (false, true) => "blocking",
            (false, false) => "-",
        };
        [
            Cell::new(&reference.owner),
            Cell::new(&reference.owner.uid),
            Cell::new(class(reference.class)).coloured(colour),
            Cell::new(flags),
            Cell::new(evidence(reference)),
        ]
    };
    let uid = look.wide.then_some("UID");
    let names = [Some("OWNER"), uid, Some("CLASS"), Some("FLAGS"), Some("EVIDENCE")];
    look.section(text, &names, explanation.references.iter().map(row));
    let rest = explanation.reference_count.saturating_sub(explanation.references.len());
    if rest > 0 && !explanation.references.is_empty() {
        line(text, format_args!("And {}.", more(rest, "owner reference")));
    }
}

const fn class(class: ReferenceClass) -> &'static str {
    match class {
        ReferenceClass::Solid => "solid",
        ReferenceClass::Waiting => "waiting",
        ReferenceClass::Absent => "absent",
        ReferenceClass::Orphaned => "orphaned",
        ReferenceClass::Unresolved => "unresolved",
        ReferenceClass::InvalidScope => "invalid scope",
    }
}

/// `3 more objects`
fn more(count: usize, what: &str) -> String {
    counted(count, &format!("more {what}"))
}

fn evidence(reference: &JudgedReference) -> String {
    let evidence = match &reference.evidence {
        Evidence::NotFound | Evidence::Remembered if reference.found.is_some() => {
            let found = reference.found.as_ref().and_then(|found| found.namespace.as_deref());
            return format!("that uid is in namespace {}", found.unwrap_or_default());
        }
        Evidence::OtherUid { uid } => return format!("that name belongs to {uid} now"),
        Evidence::NotServed { served_as: Some(version) } => {
            return format!("not served; the server has {version}");
        }
        Evidence::Watched => "is in the list of its type",
        Evidence::Remembered => "was proved to be absent",
        Evidence::Read => "was read just now",
        Evidence::NotFound => "the server says that it does not exist",
        Evidence::NotServed { served_as: None } => "the server does not have this kind",
        Evidence::Undiscovered => "this part of the API does not answer",
        Evidence::Namespaced => "a cluster-scoped object cannot have a namespaced owner",
        Evidence::Failed { error } => error,
        Evidence::NotAsked => "not looked at, because there are too many",
    };
    evidence.to_owned()
}

fn finalizers(text: &mut String, finalizers: &[FinalizerReport], look: &Look) {
    let row = |finalizer: &FinalizerReport| {
        let set_by = finalizer.set_by.as_ref();
        let since = set_by.and_then(|setter| setter.time.as_deref());
        let (api, colour) = match finalizer.api_is_served {
            Some(true) => ("served", Colour::Plain),
            Some(false) => ("not served", Colour::Red),
            None => ("-", Colour::Plain),
        };
        [
            Cell::new(&finalizer.name),
            Cell::new(set_by.map_or("-", |setter| &setter.manager)),
            Cell::new(ago(since, look)),
            Cell::new(api).coloured(colour),
            Cell::new(finalizer.removal("").unwrap_or_default()),
        ]
    };
    let names = ["FINALIZER", "SET BY", "LAST WRITTEN", "API", "REMOVED BY"];
    look.section(text, &names.map(Some), finalizers.iter().map(row));
}

/// How long ago a time was, if it is known.
fn ago(time: Option<&str>, look: &Look) -> String {
    time.and_then(|time| look.age(time)).map_or_else(|| "-".to_owned(), |age| format!("{age} ago"))
}

fn chain(text: &mut String, explanation: &Explanation, look: &Look) {
    let chain = &explanation.chain;
    let row = |leaf: &Leaf| {
        let colour = match leaf.hold {
            Hold::Finalizers | Hold::Kubelet | Hold::Undecided | Hold::Unknown => Colour::Red,
            _ => Colour::Plain,
        };
        [
            Cell::new(&leaf.object),
            Cell::new(look.cut(&leaf.waits_for)).coloured(colour),
            Cell::new(ago(leaf.deleted.as_deref(), look)),
            Cell::new(&leaf.blocks),
        ]
    };
    let names = ["HELD BY", "WAITS FOR", "DELETED", "BLOCKS"];
    look.section(text, &names.map(Some), chain.leaves.iter().map(row));
    let between = chain.links.iter().skip(1);
    let between: Vec<String> =
        between.map(|link| format!("{} (waits for {})", link.object, link.waits_for)).collect();
    if !between.is_empty() {
        line(text, format_args!("In between: {}", listed(", ", between.len(), between.iter())));
    }
    if chain.truncated {
        text.push_str("More objects block it than are shown.\n");
    }
}

fn namespace(text: &mut String, explanation: &Explanation, look: &Look) {
    let Some(report) = &explanation.namespace else { return };
    let held = report.held.iter().map(|held| {
        let more = held.count - held.objects.len();
        let mut objects: Vec<String> = held.objects.iter().map(ToString::to_string).collect();
        if more > 0 {
            objects.push(format!("and {} more", Thousands(more)));
        }
        let at_least = if report.not_read > 0 { "at least " } else { "" };
        [
            Cell::new(&held.finalizer.name),
            Cell::new(format_args!("{at_least}{}", held.count)),
            Cell::new(look.cut(&objects.join(", "))),
            Cell::new(set_by(held, look)),
        ]
    });
    look.section(text, &["HELD BY FINALIZER", "COUNT", "OBJECTS", "SET BY"].map(Some), held);
    let left = report.by_type.iter().map(|left| [Cell::new(&left.resource), Cell::new(left.count)]);
    look.section(text, &["LEFT", "COUNT"].map(Some), left);
    let conditions = report.conditions.iter();
    let conditions = conditions.map(|condition| [Cell::new(&condition.kind), Cell::new(&condition.message)]);
    look.section(text, &["CONDITION", "MESSAGE"].map(Some), conditions);
    if !report.others.is_empty() {
        text.push('\n');
    }
    for other in &report.others {
        line(text, format_args!("{other}."));
    }
    if report.not_read > 0 {
        line(text, format_args!("The finalizers of {} were not read.", more(report.not_read, "object")));
    }
}

/// Who set a finalizer, and whether its API is served.
fn set_by(held: &HeldObjects, look: &Look) -> String {
    let mut text = held.finalizer.set_by.as_ref().map_or_else(|| "-".to_owned(), |set| set.manager.clone());
    let first = held.first_set.as_deref().and_then(|time| look.age(time));
    text.extend(first.map(|age| format!(" {age} ago")));
    text.push_str(match held.finalizer.api_is_served {
        Some(true) => "; its API is served",
        Some(false) => "; its API is not served",
        None => "",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::look;
    use super::*;
    use kube_gc_insight::FinalizerSetter;

    #[test]
    fn who_set_a_finalizer_and_when_is_said_as_far_as_it_is_known() {
        let time = Some("2025-12-01T00:12:00Z".to_owned());
        for (manager, first_set, api_is_served, expected) in [
            (Some("backup"), time.clone(), Some(true), "backup 31d ago; its API is served"),
            (Some("backup"), time, None, "backup 31d ago"),
            (Some("backup"), None, None, "backup"),
            (None, None, Some(false), "-; its API is not served"),
        ] {
            let setter = |manager: &str| FinalizerSetter {
                finalizer: "x".into(),
                manager: manager.into(),
                time: None,
            };
            let (name, set_by) = ("x".to_owned(), manager.map(setter));
            let finalizer = FinalizerReport { name, set_by, api_is_served, ..FinalizerReport::default() };
            let held = HeldObjects { finalizer, first_set, count: 3, objects: Vec::new() };
            assert_eq!(super::set_by(&held, &look(false)), expected);
        }
    }
}
