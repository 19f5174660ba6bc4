//! A plan as text.

use std::fmt::Write as _;

use super::names::kubectl_name;
use super::style::{Colour, Style};
use super::table::{Cell, section};
use kube_gc_core::text::Thousands;
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::{Effect, Forecast, ObjectName, Plan, PlannedObject, TypeEffects};

/// The most objects of a plan that is not wide, besides claims, namespaces and definitions.
pub const NAMED: usize = 20;
/// How many finalizers, and how many owners, a row names.
const IN_A_ROW: usize = 3;

/// How a plan is shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// With every object, and with namespaces.
    pub wide: bool,
    /// With the names of the columns.
    pub headers: bool,
    /// Colours.
    pub style: Style,
}

/// A plan for people: the verdict, the counts, the objects to look at, and what it cannot know.
pub fn text(plan: &Plan, look: &Look) -> String {
    let mut text = look.style.paint(Colour::Bold, &Escaped(&plan.verdict).to_string()) + "\n";
    section(
        &mut text,
        &["TYPE", "DELETED", "HELD", "BLOCKS", "ORPHANED", "KEPT", "UNKNOWN"],
        counts(plan),
        look.headers,
        look.style,
    );
    let shown = shown(plan, look);
    let names: &[&str] =
        if look.wide { &["EFFECT", "OBJECT", "NAMESPACE", "NOTE"] } else { &["EFFECT", "OBJECT", "NOTE"] };
    let rows = shown.iter().map(|object| row(object, look)).collect();
    section(&mut text, names, rows, look.headers, look.style);
    let rest = plan.objects.len() - shown.len() + plan.not_listed;
    if rest > 0 && look.wide {
        let _ = writeln!(text, "and {} more objects", Thousands(rest));
    } else if rest > 0 {
        let _ = writeln!(text, "and {} more objects; -o wide lists them", Thousands(rest));
    }
    text.push('\n');
    match &plan.brake {
        Forecast::Unknown | Forecast::Off => {}
        Forecast::Passes => text.push_str("The brake of the collector does not engage.\n"),
        Forecast::Engages { why } => {
            let line = format!("The brake of the collector engages: {}.", Escaped(why));
            let _ = writeln!(text, "{}", look.style.paint(Colour::Red, &line));
        }
    }
    for note in &plan.notes {
        let _ = writeln!(text, "{}", Escaped(note));
    }
    text
}

fn counts(plan: &Plan) -> Vec<Vec<Cell>> {
    let number =
        |count: usize| Cell::new(if count == 0 { "-".to_owned() } else { Thousands(count).to_string() });
    let row = |of: &TypeEffects| {
        let counts = [of.deleted, of.held, of.blocks, of.orphaned, of.kept, of.unknown];
        let mut cells = vec![Cell::new(&of.resource)];
        cells.extend(counts.map(number));
        cells
    };
    plan.by_type.iter().map(row).collect()
}

/// The objects of a plan that people should look at; in a wide one, all.
fn shown<'a>(plan: &'a Plan, look: &Look) -> Vec<&'a PlannedObject> {
    if look.wide {
        return plan.objects.iter().collect();
    }
    let mut left = NAMED;
    let mut is_shown = |object: &&PlannedObject| {
        if object.is_precious() {
            return true;
        }
        let is_plain = object.effect == Effect::Deleted && object.after.is_none();
        if is_plain || left == 0 {
            return false;
        }
        left -= 1;
        true
    };
    plan.objects.iter().filter(|object| is_shown(object)).collect()
}

fn row(object: &PlannedObject, look: &Look) -> Vec<Cell> {
    let colour = match object.effect {
        Effect::Deleted => Colour::Yellow,
        Effect::Held | Effect::Blocks | Effect::Unknown => Colour::Red,
        Effect::Orphaned | Effect::Kept => Colour::Plain,
    };
    let mut cells = vec![Cell::new(object.effect.as_str()).coloured(colour), Cell::new(&object.name)];
    if look.wide {
        cells.push(Cell::new(object.name.namespace.as_deref().unwrap_or("-")));
    }
    cells.push(Cell::new(notes(object).join(", ")).coloured(Colour::Dim));
    cells
}

/// What there is to say about an object.
fn notes(object: &PlannedObject) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &object.why {
        notes.push(why.clone());
    }
    match (&object.finalizers, object.effect) {
        (None, _) => notes.push("finalizers that were not read".to_owned()),
        (Some(finalizers), Effect::Held | Effect::Unknown) if !finalizers.is_empty() => {
            let what = if finalizers.len() == 1 { "finalizer" } else { "finalizers" };
            let names = list(finalizers.iter().map(|finalizer| {
                let remover = finalizer.remover.as_ref().zip(finalizer.when.as_ref());
                let remover =
                    remover.map(|(remover, when)| format!(" ({remover} removes it as soon as {when})"));
                format!("{}{}", finalizer.name, remover.unwrap_or_default())
            }));
            notes.push(format!("{what} {names}"));
        }
        (Some(_), _) => {}
    }
    if let Some(after) = &object.after {
        notes.push(format!("after {after}"));
    }
    if !object.kept_by.is_empty() {
        notes.push(format!("kept by {}", list(object.kept_by.iter().map(ObjectName::to_string))));
    }
    if !object.loses.is_empty() {
        notes.push(format!("loses {}", list(object.loses.iter().map(ObjectName::to_string))));
    }
    if let Some(within) = &object.within {
        notes.push(format!("goes with {within}"));
    }
    notes
}

/// The first of several things.
fn list(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = all.len().saturating_sub(IN_A_ROW);
    let mut text = all.take(IN_A_ROW).collect::<Vec<_>>().join(" and ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// The names of the objects that are deleted, as kubectl writes them.
pub fn names(plan: &Plan) -> String {
    let goes = |object: &&PlannedObject| matches!(object.effect, Effect::Deleted | Effect::Held);
    plan.objects.iter().filter(goes).map(|object| kubectl_name(&object.name) + "\n").collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
