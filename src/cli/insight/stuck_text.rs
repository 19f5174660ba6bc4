//! Stuck objects as text.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::SystemTime;

use super::names::kubectl_name;
use super::style::{Colour, Style};
use super::table::{Cell, age, columns};
use kube_gc_core::text::Thousands;
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::{ObjectName, StuckGroup, StuckReport};

/// How stuck objects are shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// With the objects that wait.
    pub wide: bool,
    /// With the namespaces of the objects that hold others.
    pub namespaces: bool,
    /// With the names of the columns.
    pub headers: bool,
    /// Colours.
    pub style: Style,
    /// The present time.
    pub now: SystemTime,
}

/// What holds objects, that of most objects first; then what to do.
pub fn text(report: &StuckReport, look: &Look) -> String {
    let mut rows = Vec::new();
    if look.headers && !report.groups.is_empty() {
        let namespace = look.namespaces.then_some("NAMESPACE");
        rows.push(namespace.into_iter().chain(["STUCK", "OLDEST", "CAUSE"]).map(Cell::new).collect());
    }
    rows.extend(report.groups.iter().map(|group| row(group, look)));
    let mut text = if rows.is_empty() { String::new() } else { "\n".to_owned() };
    text.push_str(&columns(&rows, look.style));
    if look.wide {
        text.push_str(&objects(report, look));
    }
    // Several causes can have the same advice.
    let mut known: HashSet<&str> = HashSet::new();
    let advice = report.groups.iter().flat_map(|group| &group.advice);
    let advice: Vec<&String> = advice.filter(|advice| known.insert(advice.as_str())).collect();
    if !advice.is_empty() {
        text.push('\n');
    }
    for advice in advice {
        let _ = writeln!(text, "{}", Escaped(advice));
    }
    text
}

fn row(group: &StuckGroup, look: &Look) -> Vec<Cell> {
    let mut cells = Vec::new();
    if look.namespaces {
        let of = group.holders.first().or_else(|| group.objects.first());
        let namespaces: HashSet<_> = group.holders.iter().map(|holder| &holder.namespace).collect();
        let namespace = of.and_then(|object| object.namespace.as_deref()).unwrap_or_default();
        cells.push(Cell::new(if namespaces.len() > 1 { "(several)" } else { namespace }));
    }
    cells.push(Cell::new(Thousands(group.object_count)).coloured(Colour::Yellow));
    let oldest = group.oldest.as_deref().and_then(|time| age(time, look.now));
    cells.push(Cell::new(oldest.unwrap_or_default()));
    cells.push(Cell::new(&group.sentence));
    cells
}

/// The first objects that wait for each cause.
fn objects(report: &StuckReport, look: &Look) -> String {
    let mut text = String::new();
    for group in &report.groups {
        let _ = writeln!(text, "\n{}:", Escaped(&group.sentence));
        let rows = group.objects.iter().map(|object| {
            let namespace = object.namespace.as_deref().unwrap_or_default();
            vec![
                Cell::new(format!("  {}", kubectl_name(object))),
                Cell::new(namespace),
                Cell::new(&object.uid),
            ]
        });
        text.push_str(&columns(&rows.collect::<Vec<_>>(), look.style));
        let more = group.object_count - group.objects.len();
        if more > 0 {
            let _ = writeln!(text, "  and {} more", Thousands(more));
        }
    }
    text
}

/// The answer in one line.
pub fn summary(report: &StuckReport, older: &str) -> String {
    let StuckReport { stuck, being_deleted, .. } = report;
    let objects = if *being_deleted == 1 { "object that is" } else { "objects that are" };
    // "0 of 1 object is", "1 of 2 objects is", "0 of 2 objects are".
    let are = if *stuck == 1 || *being_deleted == 1 { "is" } else { "are" };
    format!(
        "{} of {} {objects} being deleted {are} stuck: deleted more than {older} ago.\n",
        Thousands(*stuck),
        Thousands(*being_deleted),
    )
}

/// The names of the objects that hold others, as kubectl writes them, each once.
pub fn names(report: &StuckReport) -> String {
    let mut known: HashSet<&ObjectName> = HashSet::new();
    let holders = report.groups.iter().flat_map(|group| &group.holders);
    holders.filter(|holder| known.insert(holder)).map(|holder| kubectl_name(holder) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sentence: &str) -> StuckReport {
        let receipt = ObjectName {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            resource: Some("configmaps".into()),
            namespace: Some("shop".into()),
            name: "receipt".into(),
            uid: "u".into(),
        };
        let group = StuckGroup {
            cause: "finalizers".into(),
            sentence: sentence.into(),
            holders: vec![receipt.clone()],
            holder_count: 1,
            objects: vec![receipt],
            object_count: 41,
            oldest: Some("2026-01-01T00:00:00Z".into()),
            finalizers: Vec::new(),
            advice: vec!["Look.".into(), "Look.".into()],
        };
        StuckReport { groups: vec![group], stuck: 41, being_deleted: 1200, not_read: 0 }
    }

    fn look(wide: bool) -> Look {
        let now = humantime::parse_rfc3339_weak("2026-01-01T00:12:00Z").unwrap();
        Look { wide, namespaces: wide, headers: true, style: Style::plain(), now }
    }

    #[test]
    fn causes_are_a_table_and_advice_is_given_once() {
        let report = report("40 objects wait for ConfigMap/receipt (finalizer x)");
        assert_eq!(
            summary(&report, "1m") + &text(&report, &look(false)),
            "\
41 of 1,200 objects that are being deleted are stuck: deleted more than 1m ago.

STUCK  OLDEST  CAUSE
41     12m     40 objects wait for ConfigMap/receipt (finalizer x)

Look.
"
        );
        assert_eq!(names(&report), "configmap/receipt\n");
        let wide = text(&report, &look(true));
        assert!(wide.contains("\n  configmap/receipt  shop  u\n  and 40 more\n"), "{wide}");
        assert!(wide.starts_with("\nNAMESPACE  STUCK"), "{wide}");
    }

    #[test]
    fn the_summary_agrees_with_its_numbers() {
        let said = |stuck, being_deleted| {
            summary(&StuckReport { stuck, being_deleted, ..StuckReport::default() }, "1m")
        };
        for (stuck, being_deleted, expected) in [
            (0, 0, "0 of 0 objects that are being deleted are stuck: "),
            (0, 1, "0 of 1 object that is being deleted is stuck: "),
            (1, 1, "1 of 1 object that is being deleted is stuck: "),
            (0, 2, "0 of 2 objects that are being deleted are stuck: "),
            (1, 2, "1 of 2 objects that are being deleted is stuck: "),
            (2, 2, "2 of 2 objects that are being deleted are stuck: "),
        ] {
            assert_eq!(said(stuck, being_deleted), format!("{expected}deleted more than 1m ago.\n"));
        }
    }

    #[test]
    fn hostile_texts_stay_on_their_line() {
        let report = report("a\n\u{1b}[31m\u{202e}");
        for text in [text(&report, &look(true)), names(&report)] {
            assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        }
    }
}
