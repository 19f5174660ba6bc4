//! `kube-gc tree`: what belongs to an object.

use clap::{Args, ValueEnum};

use super::arguments::{Auto, CommonArgs, OUTPUT, ReachArgs, SourceArgs};
use super::{Failed, Format, aside, ask, complete, framed, json};
use crate::app::insight;
use crate::cli::exit::Exit;
use crate::cli::invoked::Invoked;
use crate::cli::text::{Cell, Colour, Look, Redraw, first, kubectl_names, line, plural, print};
use crate::insight::{Below, Hidden, MOST_OBJECTS, Source, TreeQuery};
use kube_gc_core::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use kube_gc_core::text::Thousands;
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::{Answer, Details, More, Neighbourhood, Row, RowKind, Shown, State, counted, rows};

/// The end of `kube-gc tree --help`.
const EXAMPLES: &str = "\
Examples:
  What belongs to a deployment, and what it belongs to
    kube-gc tree deploy/web -n shop

  Only what it owns directly
    kube-gc tree deploy/web -n shop --up 0 --down 1

  Watch a deletion as it runs
    kube-gc tree deploy/web -n shop --watch

  As a picture
    kube-gc tree deploy/web -n shop -o dot | dot -Tsvg > web.svg

A namespaced object is looked for in its namespace alone, a cluster-scoped one everywhere.
docs/tree.md explains the columns.";

/// The arguments of `kube-gc tree`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::cli::exit::after(EXAMPLES, "tree"))]
pub struct TreeArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Show the tree again when it changes, until Ctrl-C or the object is gone
    #[arg(short, long, help_heading = OUTPUT)]
    watch: bool,

    /// How many levels of owners to show
    #[arg(long, help_heading = OUTPUT, value_name = "LEVELS", default_value_t = 32)]
    up: u8,

    /// How many levels of dependents to show
    #[arg(long, help_heading = OUTPUT, visible_alias = "depth", value_name = "LEVELS", default_value_t = 32)]
    down: u8,

    /// How many dependents to show of each parent and type
    ///
    /// The worst come first: stuck, being deleted, not ready. The others are counted.
    #[arg(long, help_heading = OUTPUT, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max: u16,

    /// Show all dependents, up to 1000 objects
    #[arg(long, help_heading = OUTPUT, conflicts_with = "max")]
    all: bool,

    /// Columns of the server's own tables to show besides AGE
    #[arg(long, help_heading = OUTPUT, value_name = "NAMES", value_delimiter = ',', default_value = "Ready")]
    columns: Vec<String>,

    /// Format of the tree
    ///
    /// docs/schemas/tree.json describes the JSON.
    #[arg(short, long, help_heading = OUTPUT, value_name = "FORMAT", value_enum, default_value_t)]
    output: TreeFormat,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

/// The format of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TreeFormat {
    /// A tree with columns.
    #[default]
    Table,
    /// The same with resources, namespaces and uids.
    Wide,
    /// One line of JSON.
    Json,
    /// Only the names of objects.
    Name,
    /// Graphviz.
    Dot,
}

impl TreeArgs {
    /// Shows what belongs to an object.
    pub fn run(&self) -> Result<Exit, Failed> {
        let Self { common, output, reach, .. } = self;
        let query = TreeQuery {
            object: common.object()?,
            up: self.up.into(),
            down: self.down.into(),
            most: if self.all { MOST_OBJECTS } else { self.max.into() },
            filter: reach.filter(),
            with_rows: matches!(output, TreeFormat::Table | TreeFormat::Wide),
        };
        let source = self.source.source(Auto::Lists)?;
        if self.watch {
            return self.watched(&query, &source);
        }
        let (answer, note) = ask(
            &reach.connection(common.namespace.as_ref()),
            &source,
            async |session, collector| session.tree_from(collector, &query, None).await,
            async |session| session.tree(&query, None).await,
        )?;
        print(&self.written(&answer, 0, note.as_deref())?)?;
        let is_unseen = answer.report.nodes.iter().any(|node| self.waits(node).as_deref() == Some(UNSEEN));
        Ok(complete(answer.incomplete.is_empty() && !is_unseen))
    }

    /// What an object waits for, as its owner references say.
    fn waits(&self, node: &Shown) -> Option<String> {
        // A collector leaves nothing out.
        let is_narrowed = || matches!(self.source.source(Auto::Lists), Ok(Source::Lists));
        match (node.state, node.waits_for) {
            (State::DeletingDependents, 0) if self.reach.filter().is_empty() => None,
            (State::DeletingDependents, 0) => is_narrowed().then(|| UNSEEN.to_owned()),
            (State::DeletingDependents, count) => {
                Some(format!("waits for {}", counted(count, "blocking dependent")))
            }
            (State::Orphaning, _) => Some("releases its dependents first".to_owned()),
            _ => None,
        }
    }

    fn notes(&self, shown: &Neighbourhood, place: usize, row: &Row, look: &Look) -> Vec<String> {
        let mut notes = Vec::new();
        if matches!(row.kind, RowKind::Owner(_)) {
            notes.push("owner".to_owned());
        }
        let node = &shown.nodes[place];
        notes.extend(self.waits(node));
        notes.extend(node.extra.details.as_ref().and_then(|details| held(details, look)));
        for edge in shown.further_owners(place) {
            let Shown { name, state, .. } = &shown.nodes[edge.owner];
            let state = if *state == State::Live { String::new() } else { format!(" ({})", state.as_str()) };
            notes.push(format!("also owned by {name}{state}"));
        }
        notes
    }

    /// Shows the tree whenever it has changed.
    fn watched(&self, query: &TreeQuery, source: &Source) -> Result<Exit, Failed> {
        let mut screen = Redraw::new(self.output == TreeFormat::Json);
        let (mut last, mut failed, mut most, mut at_end) = (None, None, 0, String::new());
        // Progress would be in the way of the tree.
        let ended = insight::ask(
            &self.reach.connection(self.common.namespace.as_ref()),
            |_, _| {},
            async |session| {
                let (collector, _) = session.choose(source).await?;
                let show = |answer: &Answer<Neighbourhood>| {
                    // Not the ages.
                    let now = serde_json::to_string(&answer.report).ok();
                    let has_changed = std::mem::replace(&mut last, now.clone()) != now;
                    most = most.max(below(&answer.report));
                    if let Some(Shown { name, state, .. }) = answer.report.nodes.first() {
                        at_end = format!("{} is {}\n", Escaped(name), state.as_str());
                    }
                    at_end += &about(&answer.report, most);
                    let written = self.written(answer, most, None);
                    let written = written.map(|text| screen.next(text, has_changed));
                    let written = written.and_then(|text| Ok(text.map_or(Ok(true), |text| print(&text))?));
                    written.unwrap_or_else(|error| {
                        failed = Some(error);
                        false
                    })
                };
                session.watch_tree(collector.as_ref(), query, show).await
            },
        );
        let end = screen.end();
        print(end)?;
        if let Some(error) = failed {
            return Err(error);
        }
        let (said, below) = match ended?? {
            Some((gone, below)) => (format!("{}\n", Escaped(gone)), below),
            // A screen keeps nothing of what was on it.
            None => (if end.is_empty() { String::new() } else { at_end }, Below::Nothing),
        };
        if matches!(self.output, TreeFormat::Table | TreeFormat::Wide) {
            print(&said)?;
        }
        Ok(match below {
            Below::Nothing => Exit::Success,
            Below::Something => Exit::Failure,
            Below::Unknown => Exit::Incomplete,
        })
    }

    fn written(
        &self,
        answer: &Answer<Neighbourhood>,
        most: usize,
        note: Option<&str>,
    ) -> Result<String, Failed> {
        if matches!(self.output, TreeFormat::Dot | TreeFormat::Name) {
            aside((&answer.incomplete, answer.left_out));
        }
        let format = match self.output {
            TreeFormat::Dot => return Ok(dot(&answer.report)),
            TreeFormat::Json => return Ok(json("Tree", answer)?),
            TreeFormat::Name => return Ok(names(&answer.report)),
            TreeFormat::Table => Format::Table,
            TreeFormat::Wide => Format::Wide,
        };
        let look = self.reach.look(format);
        // A screen may have no room for the end.
        let text = about(&answer.report, most) + &self.table(answer, &look);
        Ok(framed(&text, (&answer.incomplete, answer.left_out), note, &look))
    }

    /// A tree for people.
    fn table(&self, answer: &Answer<Neighbourhood>, look: &Look) -> String {
        let shown = &answer.report;
        let columns: Vec<String> = self.columns.iter().map(|name| name.to_uppercase()).collect();
        let mut names = vec![Some("NAME"), Some("STATE")];
        names.extend(columns.iter().map(|name| Some(name.as_str())));
        let of_wide = ["RESOURCE", "NAMESPACE", "UID"].map(|name| look.wide.then_some(name));
        names.extend([Some("AGE")].into_iter().chain(of_wide).chain([Some("")]));
        let mut text = look.table(&names, rows(shown).iter().map(|row| self.row(shown, row, look)));
        if shown.truncated {
            text.push_str("There are more objects than are shown or counted.\n");
        }
        text
    }

    fn row(&self, shown: &Neighbourhood, row: &Row, look: &Look) -> Vec<Cell> {
        let (place, is_above) = match row.kind {
            RowKind::Owner(place) | RowKind::Root(place) => (place, false),
            RowKind::Dependent { place, is_above } => (place, is_above),
            RowKind::More(place) => return self.rest(shown, &shown.more[place], &look.lines(&row.prefix)),
        };
        let Shown { name, state, extra, .. } = &shown.nodes[place];
        let colour = if matches!(row.kind, RowKind::Root(_)) { Colour::Bold } else { Colour::Plain };
        let cell = |column: &str| {
            let cells = extra.row.iter().find(|(name, _)| name.eq_ignore_ascii_case(column));
            Cell::new(cells.map_or("", |(_, cell)| cell.as_str()))
        };
        let mut cells = vec![
            Cell::new(format_args!("{}{name}", look.lines(&row.prefix))).coloured(colour),
            Cell::new(state.as_str()).coloured(of_state(*state)),
        ];
        cells.extend(self.columns.iter().map(|column| cell(column)));
        let notes =
            if is_above { "(above)".to_owned() } else { self.notes(shown, place, row, look).join(", ") };
        cells.extend([
            cell("Age"),
            Cell::new(name.resource.as_deref().unwrap_or(&name.api_version)),
            Cell::new(name.namespace.as_deref().unwrap_or_default()),
            Cell::new(&name.uid),
            Cell::new(notes).coloured(Colour::Dim),
        ]);
        cells
    }

    /// Dependents that are not shown.
    fn rest(&self, shown: &Neighbourhood, more: &More, prefix: &str) -> Vec<Cell> {
        let state = match more.being_deleted {
            0 => "live".to_owned(),
            all if all == more.count => "terminating".to_owned(),
            some => format!("{} live, {some} terminating", more.count.saturating_sub(some)),
        };
        let Hidden { ready, oldest } = Hidden::of(more);
        let ready = ready.map(|ready| ready.to_string()).unwrap_or_default();
        let distance = shown.nodes[more.owner].distance;
        let them = if more.count == 1 { "it" } else { "them" };
        let how = if distance >= self.down.into() {
            format!("--down {} shows {them}", distance + 1)
        } else if self.all || more.count >= MOST_OBJECTS {
            format!("--all shows up to {}", Thousands(MOST_OBJECTS))
        } else {
            format!("--all shows {them}")
        };
        let name = format!("{prefix}{} more {}", Thousands(more.count), plural(&more.kind, more.count));
        let of_column = |column: &String| {
            if column.eq_ignore_ascii_case("Ready") { ready.clone() } else { String::new() }
        };
        let mut cells = vec![name, state];
        cells.extend(self.columns.iter().map(of_column));
        let nothing = String::new;
        cells.extend([oldest.unwrap_or_default(), more.resource.clone(), nothing(), nothing(), how]);
        cells.into_iter().map(|cell| Cell::new(cell).coloured(Colour::Dim)).collect()
    }
}

/// What blocks an object may be of a type that was left out.
const UNSEEN: &str = "waits for dependents that were not looked at";

/// The number of dependents that are shown or counted.
fn below(shown: &Neighbourhood) -> usize {
    let shown_below = shown.nodes.iter().filter(|node| node.distance > 0).count();
    shown_below + shown.more.iter().map(|more| more.count).sum::<usize>()
}

/// What there is to say about the whole: how many dependents are left of the most there were, if a deletion
/// is watched.
fn about(shown: &Neighbourhood, most: usize) -> String {
    let mut text = String::new();
    let Some(Shown { name, state, .. }) = shown.nodes.first() else { return text };
    if name.resource.as_deref() == Some("namespaces") {
        let how = format!("{} plan ns/{} lists it", Invoked::detect().program(), name.name);
        line(&mut text, format_args!("A namespace does not own its content; {how}."));
    }
    if most > 0 && (*state == State::Absent || state.is_being_deleted()) {
        // There may be more below those that are not shown.
        let is_least = !shown.more.is_empty() || shown.truncated;
        let (least, now) = (if is_least { "at least " } else { "" }, Thousands(below(shown)));
        line(&mut text, format_args!("Dependents left: {least}{now} of {} counted.", Thousands(most)));
    }
    text
}

/// The colour of a state. Its word says the same.
const fn of_state(state: State) -> Colour {
    match state {
        State::Live => Colour::Plain,
        _ if state.is_being_deleted() => Colour::Yellow,
        _ => Colour::Red,
    }
}

/// What else holds an object that is being deleted.
fn held(details: &Details, look: &Look) -> Option<String> {
    let own = |name: &&String| !matches!(name.as_str(), FOREGROUND_FINALIZER | ORPHAN_FINALIZER);
    let names: Vec<String> = details.finalizers.iter().filter(own).cloned().collect();
    if names.is_empty() {
        return None;
    }
    let age = details.deleted.as_deref().and_then(|time| look.age(time));
    let deleted = age.map(|age| format!(", deleted {age} ago")).unwrap_or_default();
    Some(format!("{} {}{deleted}", plural("finalizer", names.len()), first(&names)))
}

/// The names of the objects.
fn names(shown: &Neighbourhood) -> String {
    kubectl_names(shown.nodes.iter().map(|node| &node.name))
}

/// The objects and references for Graphviz.
fn dot(shown: &Neighbourhood) -> String {
    let mut text = "digraph tree {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    for (place, node) in shown.nodes.iter().enumerate() {
        let shape = match node.state {
            State::Live => "solid",
            state if state.is_being_deleted() => "dashed",
            _ => "dotted",
        };
        let label = format!("{}\\n{}", quoted(&node.name.to_string()), node.state.as_str());
        text += &format!("  n{place} [label=\"{label}\", style={shape}];\n");
    }
    for edge in &shown.edges {
        let style = if edge.block_owner_deletion { "solid" } else { "dashed" };
        text += &format!("  n{} -> n{} [style={style}];\n", edge.owner, edge.dependent);
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
