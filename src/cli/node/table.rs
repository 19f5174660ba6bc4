//! Plans and results as text.

use std::collections::HashMap;
use std::fmt::Write as _;

use kube_gc_core::text::Thousands;
use kube_gc_core::text::escape::Escaped;
use kube_gc_node::Rule;
use kube_gc_node::pass::{Outcome, Record};
use kube_gc_node::plan::{Action, Breakdown, Due, Entry, Plan, What, Young};
use kube_gc_node::pressure::{Bytes, Goal, Usage};

use crate::cli::text::{Cell, Look, age, end, plural};
use crate::node::{PassResult, Report, amount};

/// How a plan is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// With pods, states, ages, whole ids and all tags.
    pub wide: bool,
    /// Only what has this decision.
    pub only: Option<Action>,
    /// The columns of the terminal.
    pub columns: Option<usize>,
}

impl Shown {
    /// A table of items, with what became of each in its first column.
    fn table(self, first: &str, rows: impl Iterator<Item = Vec<Cell>>) -> String {
        let wide = |name| self.wide.then_some(name);
        let names = [
            Some(first),
            Some("WHAT"),
            Some("NAME"),
            wide("POD"),
            wide("STATE"),
            wide("PINNED"),
            wide("HANDLER"),
            wide("AGE"),
            wide("USED"),
            wide("ID"),
            Some("SIZE"),
            Some("RULE"),
            Some("REASON"),
        ];
        Look { is_coloured: false, ..Look::new(self.wide, true) }.table(&names, rows)
    }

    /// The longest name: what follows it must remain in sight.
    fn longest_name(self) -> usize {
        self.columns.filter(|_| !self.wide).map_or(usize::MAX, |columns| (columns / 3).max(SHORT_ID))
    }
}

/// A plan, or what came of it, for people.
pub fn text(report: &Report, shown: Shown) -> String {
    report.result.as_ref().map_or_else(|| plan(report, shown), |pass| result(report, pass, shown))
}

/// A plan for people.
fn plan(report: &Report, shown: Shown) -> String {
    let plan = &report.plan;
    let entries = plan.entries.iter().filter(|entry| shown.only.is_none_or(|only| entry.decision == only));
    let rows = entries.map(|entry| {
        let decision = match entry.decision {
            Action::Remove => "remove",
            Action::Keep => "keep",
        };
        row(entry, [decision, entry.rule.number(), &entry.reason], shown)
    });
    let mut text = shown.table("DECISION", rows);
    if plan.entries.is_empty() {
        text.push_str("Nothing to decide about.\n");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    filesystem(&mut text, plan.usage.as_ref(), &plan.breakdown, plan);
    let _ = writeln!(text, "\n{}", removals(plan));
    if plan.more {
        text.push_str("A pass removes no more than that at a time; the rest follows in the next one.\n");
    }
    if let Some(why) = &report.dry_run {
        let _ = writeln!(text, "Nothing is removed: {}.", Escaped(why));
    }
    notes(&mut text, report);
    text
}

/// What came of a pass, for people (B9).
fn result(report: &Report, result: &PassResult, shown: Shown) -> String {
    let mut text = shown.table("OUTCOME", outcomes(&report.plan, &result.items, shown).into_iter());
    let _ = write!(text, "Removed {}, freed {}.", Thousands(result.removed), Bytes(result.freed_bytes));
    if result.refused > 0 {
        let stay = if result.refused == 1 { "stays" } else { "stay" };
        let _ = write!(text, " {} {stay} after all.", result.refused);
    }
    if result.failed > 0 {
        let _ = write!(text, " {} could not be removed.", result.failed);
    }
    text.push('\n');
    if let Some(why) = &result.interrupted {
        let _ = writeln!(text, "The pass ended early: {}.", Escaped(why));
    }
    let is_missing = result.missing_bytes > 0 || result.missing_inodes > 0;
    let images = result.items.iter().filter(|item| item.candidate.what() == What::Image);
    let images = images.filter(|item| item.outcome == Outcome::Removed).count();
    let ended_at_limit = report.plan.more && images >= report.plan.limits.images;
    if report.plan.leaves_due || (is_missing && ended_at_limit) {
        text.push_str("A pass removes no more than that at a time, and more is left: run it again.\n");
    }
    if result.unmeasured {
        text.push_str(
            "The file system of the images could not be measured, so no image was removed for space.\n",
        );
    }
    if is_missing {
        let missing = amount(result.missing_bytes, result.missing_inodes);
        let _ = writeln!(text, "Not all that was wanted could be freed: {missing} more should be free.");
    }
    let breakdown = &result.left(&report.plan.breakdown);
    filesystem(&mut text, result.usage.as_ref(), breakdown, &report.plan);
    notes(&mut text, report);
    text
}

/// What people should know beside the items.
fn notes(text: &mut String, report: &Report) {
    if let Some(Young { count, bytes, wait_seconds }) = report.plan.young {
        let (images, stay, them) =
            if count == 1 { ("image", "stays", "it") } else { ("images", "stay", "them") };
        let why = match report.plan.entries.iter().any(|entry| entry.rule == Rule::OlderThan) {
            true => format!("first saw {them}, or saw {them} in use, less than `--older-than`"),
            false => format!("first saw {them} less than `node.images.min_age`"),
        };
        let _ = writeln!(
            text,
            "Note: {} unused {images} ({}) {stay} only because kube-gc {why} ago. `kube-gc node once{asked} --wait` \
             waits {} for {them}.",
            Thousands(count),
            Bytes(bytes),
            age(wait_seconds),
            asked = report.asked,
        );
    }
    for pattern in &report.plan.unmatched_keep {
        let _ = writeln!(
            text,
            "Note: {:?} in `node.images.keep` matches no image here. A pattern is compared with whole names, such as \
             docker.io/library/nginx:1.29.",
            Escaped(pattern).to_string()
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "Note: {}.", Escaped(note.text.trim_end_matches('.')));
    }
}

/// The longest id in a narrow table; runtimes find a container by as much.
const SHORT_ID: usize = 13;

/// An item, with what became of it, by which rule, and why.
fn row(entry: &Entry, [outcome, rule, reason]: [&str; 3], shown: Shown) -> Vec<Cell> {
    let Entry { what: kind, id, name, pod, bytes, details, .. } = entry;
    let pod = pod.as_ref().filter(|pod| !pod.name.is_empty());
    let pod = pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default();
    let tags = &details.tags;
    let name = match (kind, name) {
        (What::LogDirectory | What::LogSymlink, _) => id.clone(),
        (What::Image, Some(_)) if shown.wide && !tags.is_empty() => tags.join(","),
        (What::Image, Some(name)) if tags.len() > 1 => format!("{name} and {} more", tags.len() - 1),
        (What::Container, Some(name)) if !shown.wide && !pod.is_empty() => format!("{pod}/{name}"),
        (_, Some(name)) => name.clone(),
        (What::Sandbox, None) if !shown.wide && !pod.is_empty() => pod.clone(),
        (_, None) if shown.wide => String::new(),
        (_, None) => short(id),
    };
    let ago = |seconds: Option<u64>| seconds.map(age).unwrap_or_default();
    let texts = [
        outcome.to_owned(),
        what(*kind),
        end(name, shown.longest_name()),
        pod,
        details.state.map(|state| state.replace('_', " ")).unwrap_or_default(),
        if details.pinned { "yes".to_owned() } else { String::new() },
        details.runtime_handler.clone().unwrap_or_default(),
        ago(details.created_seconds.or(details.detected_seconds)),
        ago(details.last_used_seconds),
        id.clone(),
        bytes.map(|bytes| Bytes(bytes).to_string()).unwrap_or_default(),
        rule.to_owned(),
        reason.to_owned(),
    ];
    texts.iter().map(|text| Cell::new(if text.is_empty() { "-" } else { text.as_str() })).collect()
}

/// What was to be removed, and what came of it. On request only what has gone, or only what stays, which is more.
fn outcomes(plan: &Plan, items: &[Record], shown: Shown) -> Vec<Vec<Cell>> {
    let entries = plan.entries.iter().rev().map(|entry| ((entry.what, entry.id.as_str()), entry));
    let mut entries: HashMap<_, _> = entries.collect();
    let mut rows = Vec::new();
    for Record { candidate, outcome } in items {
        let Some(entry) = entries.remove(&(candidate.what(), candidate.id())) else { continue };
        let (word, action) = match outcome {
            Outcome::Removed => ("removed", Action::Remove),
            Outcome::Refused(_) => ("stays", Action::Keep),
            Outcome::Failed(_) => ("failed", Action::Keep),
        };
        if shown.only.is_none_or(|only| only == action) {
            let reason = outcome.reason().unwrap_or_else(|| entry.reason.to_string());
            rows.push(row(entry, [word, candidate.rule.number(), &reason], shown));
        }
    }
    let is_kept = |entry: &&Entry| {
        let was_tried = !entries.contains_key(&(entry.what, entry.id.as_str()));
        entry.decision == Action::Keep && !was_tried
    };
    if shown.only == Some(Action::Keep) {
        let kept = plan.entries.iter().filter(is_kept);
        rows.extend(kept.map(|entry| row(entry, ["kept", entry.rule.number(), &entry.reason], shown)));
    }
    rows
}

/// The beginning of an id, without the name of its algorithm.
fn short(id: &str) -> String {
    let hex = id.split_once(':').map_or(id, |(_, hex)| hex);
    hex.chars().take(SHORT_ID).collect()
}

fn what(what: What) -> String {
    <&str>::from(what).replace('_', " ")
}

/// How full the file system of the images is, what is to be free, and what fills it.
fn filesystem(text: &mut String, usage: Option<&Usage>, breakdown: &Breakdown, plan: &Plan) {
    let Some(usage) = usage else {
        text.push_str("It is not known how full the file system of the images is.\n");
        return;
    };
    let mut line = |of: &str, usage: &Usage| {
        let percent = usage.percent().map(|percent| format!(" ({percent} %)")).unwrap_or_default();
        let inodes = usage.percent_of_inodes();
        let inodes = inodes.map(|percent| format!("; {percent} % of the inodes")).unwrap_or_default();
        let (used, capacity) = (Bytes(usage.used()), Bytes(usage.capacity));
        let _ = writeln!(text, "File system of the {of}: {used} of {capacity} used{percent}{inodes}.");
    };
    line("images", usage);
    if let Some(usage) = &plan.container_usage {
        line("containers", usage);
    }
    if let Some(Goal { available, inodes_free, rule }) = plan.goal {
        let _ = writeln!(text, "To be free: {} ({rule}).", amount(available, inodes_free));
    }
    let Breakdown { in_use, unused, kept, dead_containers, other } = *breakdown;
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
    let part = |due: &Due| {
        let (now, kind) = (Thousands(due.now), plural(&what(due.what), due.count));
        if due.now == due.count {
            format!("{now} {kind}")
        } else {
            format!("{now} of {} {kind}", Thousands(due.count))
        }
    };
    let parts: Vec<String> = plan.due.iter().map(part).collect();
    if parts.is_empty() {
        return "To remove: nothing.".to_owned();
    }
    let sum = |bytes: fn(&Due) -> u64| plan.due.iter().map(bytes).fold(0, u64::saturating_add);
    let (now, all) = (sum(|due| due.now_bytes), sum(|due| due.bytes));
    let of = if now == all { String::new() } else { format!(" of {}", Bytes(all)) };
    format!("To remove: {}; about {}{of}.", parts.join(", "), Bytes(now))
}

#[cfg(test)]
mod tests;
