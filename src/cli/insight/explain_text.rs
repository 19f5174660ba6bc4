//! An explanation as text.

use std::fmt::Write as _;
use std::time::SystemTime;

use super::style::{Colour, Style};
use super::table::{Cell, age, section};
use crate::insight::{Decision, ExplainAnswer, Stuck};
use kube_gc_core::object::split_api_version;
use kube_gc_core::text::Thousands;
use kube_gc_core::text::escape::Escaped;
use kube_gc_core::verdict::ReferenceClass;
use kube_gc_insight::{
    Evidence, Explanation, FinalizerReport, HeldObjects, Hold, JudgedReference, Leaf, Outcome,
};

/// How an explanation is shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// With uids.
    pub wide: bool,
    /// With the names of the columns.
    pub headers: bool,
    /// Colours.
    pub style: Style,
    /// The present time.
    pub now: SystemTime,
}

/// An explanation for people: the verdict first, then what it rests on, then what to do.
pub fn text(explanation: &Explanation, look: &Look) -> String {
    let colour = match explanation.outcome {
        Outcome::Stays | Outcome::LosesReferences => Colour::Bold,
        Outcome::Goes | Outcome::Waits => Colour::Yellow,
        Outcome::Undecided | Outcome::Absent | Outcome::Unknown => Colour::Red,
    };
    let mut text = look.style.paint(colour, &Escaped(&explanation.verdict).to_string()) + "\n";
    if let Some(age) = explanation.deleted.as_deref().and_then(|time| age(time, look.now)) {
        let _ = writeln!(text, "It was deleted {age} ago.");
    }
    references(&mut text, explanation, look);
    finalizers(&mut text, &explanation.finalizers, look);
    chain(&mut text, explanation, look);
    namespace(&mut text, explanation, look);
    if !explanation.advice.is_empty() {
        text.push('\n');
        for advice in &explanation.advice {
            let _ = writeln!(text, "{}", Escaped(advice));
        }
    }
    text
}

/// What a collector has done about the object; empty if lists were asked.
pub fn of_collector(answer: &ExplainAnswer, look: &Look) -> String {
    let mut text = String::new();
    let ago = |time: &str| age(time, look.now).map(|age| format!(" {age} ago")).unwrap_or_default();
    if let Some(Decision { at, action, outcome, error }) = answer.decisions.iter().flatten().next() {
        let error = error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        let line = format!(
            "The last decision of the collector was {action}{}, and it was {outcome}{error}",
            ago(at)
        );
        let _ = writeln!(text, "\n{}.", Escaped(line.trim_end_matches('.')));
    }
    if let Some(Stuck { reason, since, attempts, next_retry_seconds, message, hint }) = &answer.stuck {
        let attempts = attempts.map(|count| format!(" after {count} attempts")).unwrap_or_default();
        let next = match next_retry_seconds {
            Some(seconds) if *seconds >= 1.0 => format!(" It tries again in {seconds:.0} s."),
            Some(_) => " It tries again now.".to_owned(),
            None => String::new(),
        };
        let line = format!(
            "The collector cannot finish with it{attempts} ({reason}, since{}): {message}.",
            ago(since)
        );
        let _ = writeln!(text, "\n{}{next}\nWhat to do: {}.", Escaped(line), Escaped(hint));
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
        let mut cells = vec![Cell::new(&reference.owner)];
        if look.wide {
            cells.push(Cell::new(&reference.owner.uid));
        }
        cells.push(Cell::new(class(reference.class)).coloured(colour));
        let mut flags = Vec::new();
        if reference.controller {
            flags.push("controller");
        }
        if reference.block_owner_deletion {
            flags.push("blocking");
        }
        cells.push(Cell::new(if flags.is_empty() { "-".to_owned() } else { flags.join(",") }));
        cells.push(Cell::new(evidence(&reference.evidence)));
        cells
    };
    let names: &[&str] = if look.wide {
        &["OWNER", "UID", "CLASS", "FLAGS", "EVIDENCE"]
    } else {
        &["OWNER", "CLASS", "FLAGS", "EVIDENCE"]
    };
    section(text, names, explanation.references.iter().map(row).collect(), look.headers, look.style);
    let rest = explanation.reference_count.saturating_sub(explanation.references.len());
    if rest > 0 && !explanation.references.is_empty() {
        let _ = writeln!(text, "and {} more owner references", Thousands(rest));
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

fn evidence(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Watched => "is in the list of its type".to_owned(),
        Evidence::Remembered => "was seen to be deleted".to_owned(),
        Evidence::Read => "was read just now".to_owned(),
        Evidence::NotFound => "the server says that it does not exist".to_owned(),
        Evidence::OtherUid { uid } => format!("that name belongs to {uid} now"),
        Evidence::NotServed { served_as: Some(version) } => format!("not served; the server has {version}"),
        Evidence::NotServed { served_as: None } => "the server does not have this kind".to_owned(),
        Evidence::Undiscovered => "this part of the API does not answer".to_owned(),
        Evidence::Namespaced => "a cluster-scoped object cannot have a namespaced owner".to_owned(),
        Evidence::Failed { error } => error.clone(),
        Evidence::NotAsked => "not looked at, because there are too many".to_owned(),
    }
}

fn finalizers(text: &mut String, finalizers: &[FinalizerReport], look: &Look) {
    let row = |finalizer: &FinalizerReport| {
        let set_by = finalizer.set_by.as_ref();
        let since = set_by.and_then(|setter| age(setter.time.as_deref()?, look.now));
        let api = match finalizer.api_is_served {
            Some(true) => "served",
            Some(false) => "not served",
            None => "-",
        };
        let remover = match (&finalizer.remover, &finalizer.when) {
            (Some(remover), Some(when)) => format!("{remover}, as soon as {when}"),
            _ => String::new(),
        };
        vec![
            Cell::new(&finalizer.name),
            Cell::new(set_by.map_or("-", |setter| &setter.manager)),
            Cell::new(since.map_or_else(|| "-".to_owned(), |age| format!("{age} ago"))),
            Cell::new(api).coloured(if api == "not served" { Colour::Red } else { Colour::Plain }),
            Cell::new(remover),
        ]
    };
    let names = ["FINALIZER", "SET BY", "LAST WRITTEN", "API", "REMOVED BY"];
    section(text, &names, finalizers.iter().map(row).collect(), look.headers, look.style);
}

fn chain(text: &mut String, explanation: &Explanation, look: &Look) {
    let chain = &explanation.chain;
    let row = |leaf: &Leaf| {
        let age = leaf.deleted.as_deref().and_then(|time| age(time, look.now));
        vec![
            Cell::new(&leaf.object),
            Cell::new(hold(leaf)).coloured(match leaf.hold {
                Hold::Finalizers | Hold::Undecided | Hold::Unknown => Colour::Red,
                _ => Colour::Plain,
            }),
            Cell::new(age.map_or_else(|| "-".to_owned(), |age| format!("{age} ago"))),
            Cell::new(&leaf.blocks),
        ]
    };
    let names = ["HELD BY", "BECAUSE", "DELETED", "BLOCKS"];
    section(text, &names, chain.leaves.iter().map(row).collect(), look.headers, look.style);
    let between: Vec<String> = chain
        .links
        .iter()
        .skip(1)
        .map(|link| format!("{} (waits for {})", link.object, link.waits_for))
        .collect();
    if !between.is_empty() {
        let shown = kube_gc_core::text::listed(", ", between.len(), between.iter());
        let _ = writeln!(text, "In between: {}", Escaped(shown));
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
        vec![
            Cell::new(&held.finalizer.name),
            Cell::new(held.count),
            Cell::new(objects.join(", ")),
            Cell::new(set_by(held, look)),
        ]
    });
    section(
        text,
        &["HELD BY FINALIZER", "COUNT", "OBJECTS", "SET BY"],
        held.collect(),
        look.headers,
        look.style,
    );
    let left = report.by_type.iter().map(|left| vec![Cell::new(&left.resource), Cell::new(left.count)]);
    section(text, &["LEFT", "COUNT"], left.collect(), look.headers, look.style);
    let conditions = report.conditions.iter();
    let conditions =
        conditions.map(|condition| vec![Cell::new(&condition.kind), Cell::new(&condition.message)]);
    section(text, &["CONDITION", "MESSAGE"], conditions.collect(), look.headers, look.style);
    if report.not_read > 0 {
        let _ =
            writeln!(text, "The finalizers of {} more objects were not read.", Thousands(report.not_read));
    }
}

/// Who set a finalizer, and whether that controller is still at work.
fn set_by(held: &HeldObjects, look: &Look) -> String {
    let ago = |time: &Option<String>| time.as_deref().and_then(|time| age(time, look.now));
    let mut parts = Vec::new();
    match held.finalizer.api_is_served {
        Some(true) => parts.push("its API is served".to_owned()),
        Some(false) => parts.push("its API is not served".to_owned()),
        None => {}
    }
    parts.extend(ago(&held.last_write).map(|age| format!("it has not written here for {age}")));
    let mut text = held.finalizer.set_by.as_ref().map_or_else(|| "-".to_owned(), |set| set.manager.clone());
    text.extend(ago(&held.first_set).map(|age| format!(" {age} ago")));
    if !parts.is_empty() {
        text.push_str(&format!("; {}", parts.join(", and ")));
    }
    text
}

fn hold(leaf: &Leaf) -> String {
    match leaf.hold {
        Hold::Finalizers => {
            let own = |finalizer: &&FinalizerReport| finalizer.name != "foregroundDeletion";
            let names: Vec<&str> = leaf.finalizers.iter().filter(own).map(|one| one.name.as_str()).collect();
            let what = if names.len() == 1 { "finalizer" } else { "finalizers" };
            format!("{what} {}", kube_gc_core::text::listed(", ", names.len(), names.iter()))
        }
        Hold::GracePeriod => "its grace period has not ended".to_owned(),
        Hold::Orphaning => "its dependents are being released".to_owned(),
        Hold::Unblocked => "nothing: the collector removes its finalizer".to_owned(),
        Hold::ToBeDeleted => "not deleted yet: the collector deletes it".to_owned(),
        Hold::ToBeReleased => "not released yet: another owner keeps it".to_owned(),
        Hold::Undecided => "an owner of it cannot be resolved".to_owned(),
        Hold::Unknown => "it could not be looked at".to_owned(),
    }
}

/// The names of the objects that hold it, as kubectl writes them.
pub fn names(explanation: &Explanation) -> String {
    let mut text = String::new();
    for leaf in &explanation.chain.leaves {
        let (group, _) = split_api_version(&leaf.object.api_version);
        let dot = if group.is_empty() { "" } else { "." };
        let kind = leaf.object.kind.to_lowercase();
        let _ = writeln!(text, "{}{dot}{}/{}", Escaped(kind), Escaped(group), Escaped(&leaf.object.name));
    }
    text
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
