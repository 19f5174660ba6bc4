//! A tree as text.

use std::fmt::Write as _;
use std::time::SystemTime;

use super::names::kubectl_name;
use super::style::{Colour, Style, of_state};
use super::table::{Cell, age, columns};
use crate::insight::{Hidden, NodeExtra, TreeAnswer};
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::{Details, Neighbourhood, Row, RowKind, Shown, State, rows};

/// How a tree is shown.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Columns of the server's tables.
    pub columns: &'a [String],
    /// With resources, namespaces and uids.
    pub wide: bool,
    /// With the names of the columns.
    pub headers: bool,
    /// Colours.
    pub style: Style,
    /// The present time.
    pub now: SystemTime,
    /// How many levels of dependents were asked for.
    pub down: usize,
    /// Whether all dependents were asked for.
    pub all: bool,
}

/// How many finalizers of an object a row names.
const NAMED_FINALIZERS: usize = 3;

/// A tree for people.
pub fn table(answer: &TreeAnswer, look: &Look<'_>) -> String {
    let mut table = Vec::new();
    if look.headers {
        let mut names = vec!["NAME".to_owned(), "STATE".to_owned()];
        names.extend(look.columns.iter().map(|name| name.to_uppercase()));
        names.push("AGE".to_owned());
        if look.wide {
            names.extend(["RESOURCE", "NAMESPACE", "UID"].map(str::to_owned));
        }
        table.push(names.into_iter().map(Cell::new).collect());
    }
    table.extend(rows(&answer.shown).iter().map(|row| line(answer, row, look)));
    let mut text = columns(&table, look.style);
    if answer.shown.truncated {
        text.push_str("There are more objects than are shown or counted.\n");
    }
    text
}

fn line(answer: &TreeAnswer, row: &Row, look: &Look<'_>) -> Vec<Cell> {
    let (place, is_above) = match row.kind {
        RowKind::Owner(place) | RowKind::Root(place) => (place, false),
        RowKind::Dependent { place, is_above } => (place, is_above),
        RowKind::More(place) => {
            return rest(answer, place, &row.prefix, look);
        }
    };
    let node = &answer.shown.nodes[place];
    let nothing = NodeExtra::default();
    let extra = answer.extras.get(&place).unwrap_or(&nothing);
    let is_root = matches!(row.kind, RowKind::Root(_));
    let name = format!("{}{}", row.prefix, node.name);
    let cell = |column: &str| {
        let cells = extra.row.iter().find(|(name, _)| name.eq_ignore_ascii_case(column));
        cells.map_or("", |(_, cell)| cell.as_str())
    };
    let mut cells = vec![
        Cell::new(name).coloured(if is_root { Colour::Bold } else { Colour::Plain }),
        Cell::new(node.state.as_str()).coloured(of_state(node.state)),
    ];
    cells.extend(look.columns.iter().map(|column| Cell::new(cell(column))));
    cells.push(Cell::new(cell("Age")));
    if look.wide {
        let api_version = &node.name.api_version;
        cells.push(Cell::new(node.name.resource.as_deref().unwrap_or(api_version)));
        cells.push(Cell::new(node.name.namespace.as_deref().unwrap_or_default()));
        cells.push(Cell::new(&node.name.uid));
    }
    let notes = notes(answer, place, row, extra, is_above, look.now);
    cells.push(Cell::new(notes.join(", ")).coloured(Colour::Dim));
    cells
}

/// Dependents that are not shown.
fn rest(answer: &TreeAnswer, place: usize, prefix: &str, look: &Look<'_>) -> Vec<Cell> {
    let more = &answer.shown.more[place];
    let state = match more.being_deleted {
        0 => "live".to_owned(),
        all if all == more.count => "terminating".to_owned(),
        some => format!("{} live, {some} terminating", more.count.saturating_sub(some)),
    };
    let nothing = Hidden::default();
    let Hidden { judged, ready, aged, oldest } = answer.hidden.get(&place).unwrap_or(&nothing);
    // Not all of them were looked at.
    let at_least = |known: usize| if known < more.count { "≥" } else { "" };
    let ready = if *judged == 0 { String::new() } else { format!("{}{ready}", at_least(*judged)) };
    let oldest = oldest.as_ref().map(|(_, age)| format!("{}{age}", at_least(*aged)));
    let mut cells = vec![format!("{prefix}{} more {}", more.count, plural(&more.kind, more.count)), state];
    let of_column =
        |column: &String| if column.eq_ignore_ascii_case("Ready") { ready.clone() } else { String::new() };
    cells.extend(look.columns.iter().map(of_column));
    cells.push(oldest.unwrap_or_default());
    if look.wide {
        cells.extend([more.resource.clone(), String::new(), String::new()]);
    }
    let distance = usize::try_from(answer.shown.nodes[more.owner].distance).unwrap_or_default();
    cells.push(if distance >= look.down {
        format!("--down {} shows them", distance + 1)
    } else if look.all {
        String::new()
    } else {
        "--all shows them".to_owned()
    });
    cells.into_iter().map(|cell| Cell::new(cell).coloured(Colour::Dim)).collect()
}

fn notes(
    answer: &TreeAnswer,
    place: usize,
    row: &Row,
    extra: &NodeExtra,
    is_above: bool,
    now: SystemTime,
) -> Vec<String> {
    let node = &answer.shown.nodes[place];
    let mut notes = Vec::new();
    if is_above {
        notes.push("(above)".to_owned());
        return notes;
    }
    if matches!(row.kind, RowKind::Owner(_)) {
        notes.push("owner".to_owned());
    }
    notes.extend(waits(node));
    notes.extend(extra.details.as_ref().and_then(|details| held(details, now)));
    for edge in answer.shown.further_owners(place) {
        let owner = &answer.shown.nodes[edge.owner];
        let state =
            if owner.state == State::Live { String::new() } else { format!(" ({})", owner.state.as_str()) };
        notes.push(format!("also owned by {}{state}", owner.name));
    }
    notes
}

/// What an object waits for, as its owner references say.
fn waits(node: &Shown) -> Option<String> {
    match (node.state, node.waits_for) {
        (State::DeletingDependents, 1) => Some("waits for 1 blocking dependent".to_owned()),
        (State::DeletingDependents, count) if count > 1 => {
            Some(format!("waits for {count} blocking dependents"))
        }
        (State::Orphaning, _) => Some("releases its dependents first".to_owned()),
        _ => None,
    }
}

/// What else holds an object that is being deleted.
fn held(details: &Details, now: SystemTime) -> Option<String> {
    let own = |name: &&String| !matches!(name.as_str(), "foregroundDeletion" | "orphan");
    let names: Vec<&str> = details.finalizers.iter().filter(own).map(String::as_str).collect();
    if names.is_empty() {
        return None;
    }
    let what = if names.len() == 1 { "finalizer" } else { "finalizers" };
    let mut text = format!("{what} {}", names[..names.len().min(NAMED_FINALIZERS)].join(" and "));
    if names.len() > NAMED_FINALIZERS {
        let _ = write!(text, " and {} more", names.len() - NAMED_FINALIZERS);
    }
    if let Some(age) = details.deleted.as_deref().and_then(|time| age(time, now)) {
        let _ = write!(text, ", deleted {age} ago");
    }
    Some(text)
}

/// The plural of a kind.
fn plural(kind: &str, count: usize) -> String {
    if count == 1 {
        return kind.to_owned();
    }
    match kind {
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => match kind.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
            _ => format!("{kind}s"),
        },
    }
}

/// The names of the objects, as kubectl writes them.
pub fn names(shown: &Neighbourhood) -> String {
    let mut text = String::new();
    for node in &shown.nodes {
        text.push_str(&kubectl_name(&node.name));
        text.push('\n');
    }
    text
}

/// The objects and references for Graphviz.
pub fn dot(shown: &Neighbourhood) -> String {
    let mut text = "digraph tree {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    for (place, node) in shown.nodes.iter().enumerate() {
        let shape = match node.state {
            State::Live => "solid",
            State::Terminating | State::DeletingDependents | State::Orphaning => "dashed",
            State::Absent | State::Unknown | State::Unresolved | State::InvalidScope => "dotted",
        };
        let label = format!("{}\n{}", quoted(&node.name.to_string()), node.state.as_str());
        let label = label.replace('\n', "\\n");
        let _ = writeln!(text, "  n{place} [label=\"{label}\", style={shape}];");
    }
    for edge in &shown.edges {
        let style = if edge.block_owner_deletion { "solid" } else { "dashed" };
        let _ = writeln!(text, "  n{} -> n{} [style={style}];", edge.owner, edge.dependent);
    }
    text.push_str("}\n");
    text
}

/// A text for a string of Graphviz.
fn quoted(text: &str) -> String {
    Escaped(text).to_string().replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
