//! `kube-gc tree`.

use std::time::SystemTime;

use clap::{Args, ValueEnum};

use super::answer::Format;
use super::arguments::CommonArgs;
use super::redraw::Redraw;
use super::source::{Auto, SourceArgs, ask};
use super::style::Style;
use super::{answer, footer, tree_text, unanswered};
use crate::app::insight;
use crate::app::{Error, ErrorKind};
use crate::cli::exit::Exit;
use crate::insight::{ObjectArgument, Source, TreeAnswer, TreeQuery, Watcher};

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

/// The most objects that a tree shows.
const MOST_OBJECTS: usize = 1000;

/// The arguments of `kube-gc tree`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", crate::cli::exit::HELP))]
pub struct TreeArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    source: SourceArgs,

    /// Show the tree again when it changes, until Ctrl-C or the object is gone
    #[arg(short, long)]
    watch: bool,

    /// How many levels of owners to show
    #[arg(long, value_name = "LEVELS", default_value_t = 32)]
    up: u8,

    /// How many levels of dependents to show
    #[arg(long, visible_alias = "depth", value_name = "LEVELS", default_value_t = 32)]
    down: u8,

    /// How many dependents to show of each parent and type
    ///
    /// The worst come first: stuck, being deleted, not ready. The others are counted.
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max: u16,

    /// Show all dependents, up to 1000 objects
    #[arg(long, conflicts_with = "max")]
    all: bool,

    /// Columns of the server's own tables to show besides AGE
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "Ready")]
    columns: Vec<String>,

    /// Format of the tree
    ///
    /// docs/schemas/tree.json describes the JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: TreeFormat,
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

/// Shows what belongs to an object.
pub fn run(args: &TreeArgs) -> Exit {
    answer::run(|| shown(args))
}

fn shown(args: &TreeArgs) -> Result<Exit, Error> {
    let object = ObjectArgument::read(&args.common.object);
    let object = object.map_err(|error| Error::new(ErrorKind::Settings, error))?;
    let query = TreeQuery {
        object,
        up: args.up.into(),
        down: args.down.into(),
        most: if args.all { MOST_OBJECTS } else { args.max.into() },
        limit: MOST_OBJECTS,
        filter: args.common.filter(),
        with_rows: matches!(args.output, TreeFormat::Table | TreeFormat::Wide),
    };
    let source = args.source.source(Auto::Lists)?;
    if args.watch {
        return watched(args, &query, &source);
    }
    let answer = ask(
        &args.common.connection(),
        &source,
        async |session, collector, watcher| session.tree_from(collector, &query, watcher).await,
        async |session, watcher| session.tree(&query, watcher).await,
    )?;
    answer::end(
        answer,
        |(answer, note)| args.written(answer, note.as_deref()),
        |(answer, _)| answer::complete(answer.incomplete.is_empty()),
    )
}

/// Shows the tree whenever it has changed.
fn watched(args: &TreeArgs, query: &TreeQuery, source: &Source) -> Result<Exit, Error> {
    let mut screen = Redraw::new(args.output == TreeFormat::Json);
    let (mut last, mut failed) = (None, None);
    let ended = insight::ask(&args.common.connection(), async |session, interrupted| {
        // Progress would be in the way of the tree.
        let watcher = Watcher { progress: &|_, _| {}, interrupted };
        let collector = session.choose(source, &watcher).await?.collector;
        let show = |answer: &TreeAnswer| {
            let has_changed = last.replace(answer.shown.clone()).as_ref() != Some(&answer.shown);
            match args.written(answer, None).and_then(|text| screen.show(text, has_changed)) {
                Ok(goes_on) => goes_on,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        };
        session.watch_tree(collector.as_ref(), query, &watcher, show).await
    })?;
    match (failed, ended) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(Exit::Success),
        (None, Err(error)) => Ok(unanswered(&error)),
    }
}

impl TreeArgs {
    fn written(&self, answer: &TreeAnswer, note: Option<&str>) -> Result<String, Error> {
        let format = match self.output {
            TreeFormat::Dot => return Ok(tree_text::dot(&answer.shown)),
            TreeFormat::Table => Format::Table,
            TreeFormat::Wide => Format::Wide,
            TreeFormat::Json => Format::Json,
            TreeFormat::Name => Format::Name,
        };
        let names = |answer: &TreeAnswer| tree_text::names(&answer.shown);
        format.write("Tree", answer, names, |answer, wide| {
            let look = tree_text::Look {
                columns: &self.columns,
                wide,
                headers: self.common.headers(),
                style: Style::detect(),
                now: SystemTime::now(),
                down: self.down.into(),
                all: self.all,
            };
            tree_text::table(answer, &look) + &footer(&answer.incomplete, answer.left_out, note)
        })
    }
}
