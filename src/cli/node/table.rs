//! Plans and results as text.

use std::fmt::Write as _;

use kube_gc_core::text::escape::Escaped;
use kube_gc_node::pass::Record;
use kube_gc_node::plan::{Action, Breakdown, Entry, Plan, What};
use kube_gc_node::pressure::{Bytes, Goal, Usage};

use crate::cli::text::{Cell, Look, plural};
use crate::node::{PassResult, Report};

/// A plan for people.
pub fn plan(report: &Report, wide: bool) -> String {
    let plan = &report.plan;
    let (pod, id) = (wide.then_some("POD"), wide.then_some("ID"));
    let names =
        [Some("DECISION"), Some("WHAT"), Some("NAME"), pod, id, Some("SIZE"), Some("RULE"), Some("REASON")];
    let look = Look { is_coloured: false, ..Look::new(wide, true) };
    let mut text = look.table(&names, plan.entries.iter().map(|entry| row(entry, wide)));
    if text.is_empty() {
        text.push_str("Nothing to decide about.\n");
    }
    text.push('\n');
    filesystem(&mut text, plan);
    let _ = writeln!(text, "\n{}", removals(plan));
    if plan.more {
        text.push_str("A pass removes no more than that at a time; the rest follows in the next one.\n");
    }
    if plan.wrong_node {
        let _ = writeln!(
            text,
            "The API server knows fewer than half of the pods here. Is {} the name of this node (--node)?",
            Escaped(&report.node)
        );
    }
    if let Some(why) = &report.dry_run {
        let _ = writeln!(text, "Nothing is removed: {}.", Escaped(why));
    }
    notes(&mut text, report);
    text
}

/// What came of a pass, for people (B9).
pub fn result(report: &Report, result: &PassResult) -> String {
    let PassResult {
        removed,
        refused,
        failed,
        freed_bytes,
        missing_bytes,
        missing_inodes,
        unmeasured,
        interrupted,
        ..
    } = result;
    let mut text = format!("Removed {removed}, freed {}.", Bytes(*freed_bytes));
    if *refused > 0 {
        let _ = write!(text, " {refused} stay, because they had changed since the plan was made.");
    }
    if *failed > 0 {
        let _ = write!(text, " {failed} could not be removed.");
    }
    text.push('\n');
    for Record { candidate, outcome } in &result.items {
        if let Some(why) = outcome.reason() {
            let (what, id) = (what(candidate.what()), Escaped(candidate.id()));
            let _ = writeln!(text, "  {what} {id} ({}): {}", candidate.rule, Escaped(&why));
        }
    }
    if let Some(why) = interrupted {
        let _ = writeln!(text, "The pass ended early: {}.", Escaped(why));
    }
    if report.plan.leaves_due {
        text.push_str("A pass removes no more than that at a time, and more is left: run it again.\n");
    }
    if *unmeasured {
        text.push_str(
            "The file system of the images could not be measured, so no image was removed for space.\n",
        );
    }
    if *missing_bytes > 0 || *missing_inodes > 0 {
        let _ = write!(text, "Not all that was wanted could be freed: {} ", Bytes(*missing_bytes));
        if *missing_inodes > 0 {
            let _ = write!(text, "and {missing_inodes} inodes ");
        }
        text.push_str("are missing. Before the pass:\n");
        filesystem(&mut text, &report.plan);
    }
    notes(&mut text, report);
    text
}

fn notes(text: &mut String, report: &Report) {
    for note in &report.notes {
        let _ = writeln!(text, "Note: {}.", Escaped(note.trim_end_matches('.')));
    }
}

/// The longest id in a narrow table; runtimes find a container by as much.
const SHORT_ID: usize = 13;

fn row(entry: &Entry, wide: bool) -> [Cell; 8] {
    let Entry { what: kind, id, name, pod, decision, rule, reason, bytes, .. } = entry;
    let decision = match decision {
        Action::Remove => "remove",
        Action::Keep => "keep",
    };
    let name = name.clone().unwrap_or_else(|| match kind {
        What::LogDirectory | What::LogSymlink => id.clone(),
        _ if wide => String::new(),
        _ => short(id),
    });
    let pod = pod.as_ref().filter(|pod| !pod.name.is_empty());
    let pod = pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default();
    let size = bytes.map(|bytes| Bytes(bytes).to_string()).unwrap_or_default();
    let cells = [
        decision.to_owned(),
        what(*kind).to_owned(),
        name,
        pod,
        id.clone(),
        size,
        rule.to_string(),
        reason.to_string(),
    ];
    cells.map(|cell| Cell::new(if cell.is_empty() { "-" } else { cell.as_str() }))
}

/// The beginning of an id, without the name of its algorithm.
fn short(id: &str) -> String {
    let hex = id.split_once(':').map_or(id, |(_, hex)| hex);
    hex.chars().take(SHORT_ID).collect()
}

const fn what(what: What) -> &'static str {
    match what {
        What::Container => "container",
        What::Sandbox => "sandbox",
        What::LogDirectory => "log directory",
        What::LogSymlink => "log symlink",
        What::Image => "image",
    }
}

/// What fills the file system of the images.
fn filesystem(text: &mut String, plan: &Plan) {
    let Some(usage) = &plan.usage else {
        text.push_str("It is not known how full the file system of the images is.\n");
        return;
    };
    let Usage { capacity, .. } = usage;
    let percent = usage.percent().map(|percent| format!(" ({percent} %)")).unwrap_or_default();
    let inodes =
        usage.percent_of_inodes().map(|percent| format!("; {percent} % of the inodes")).unwrap_or_default();
    let _ = writeln!(
        text,
        "File system of the images: {} of {} used{percent}{inodes}.",
        Bytes(usage.used()),
        Bytes(*capacity)
    );
    if let Some(Goal { available, inodes_free, rule }) = plan.goal {
        let _ = write!(text, "To be free: {}", Bytes(available));
        if inodes_free > 0 {
            let _ = write!(text, " and {inodes_free} inodes");
        }
        let _ = writeln!(text, " ({rule}).");
    }
    let Breakdown { in_use, unused, kept, dead_containers, other } = plan.breakdown;
    for (name, bytes) in [
        ("images in use", in_use),
        ("images unused", unused),
        ("images kept", kept),
        ("dead containers", dead_containers),
        ("other", other),
    ] {
        let _ = writeln!(text, "  {name:<16} {:>10}", Bytes(bytes).to_string());
    }
}

/// How much goes, in a sentence.
fn removals(plan: &Plan) -> String {
    let count = |kind: What| plan.removed().filter(|entry| entry.what == kind).count();
    let kinds = [What::Container, What::Sandbox, What::LogDirectory, What::LogSymlink, What::Image];
    let parts: Vec<String> = kinds
        .into_iter()
        .map(|kind| (kind, count(kind)))
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {}", plural(what(kind), count)))
        .collect();
    if parts.is_empty() {
        return "To remove: nothing.".to_owned();
    }
    let bytes = plan.removed().filter_map(|entry| entry.bytes).fold(0, u64::saturating_add);
    format!("To remove: {}; about {}.", parts.join(", "), Bytes(bytes))
}
