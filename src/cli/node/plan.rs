//! `kube-gc node plan`.

use clap::{Args, ValueEnum};

use super::arguments::CommonArgs;
use super::table;
use crate::app::{self, Error, ErrorKind};
use crate::cli::exit::Exit;
use crate::cli::report;
use crate::cli::shared::begin;

/// The end of `kube-gc node plan --help`.
const EXAMPLES: &str = "\
Examples:
  Everything on this node, with pods and ids
    kube-gc node plan -o wide

  What would be removed, for a script
    kube-gc node plan -o json | jq -r '.entries[] | select(.decision == \"remove\") | .id'

The plan is what `kube-gc node once` would do now. It needs the same rights as once: the
socket usually belongs to root. It writes nothing, not even the ages of images, so images
that no earlier pass has seen count as seen just now, and stay for `node.images.min_age`.";

/// The arguments of `kube-gc node plan`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", crate::cli::exit::HELP))]
pub struct PlanArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Format of the plan: a table, a table with pods and ids, or JSON
    ///
    /// docs/node-plan.schema.json describes the JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

/// The format of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table.
    #[default]
    Table,
    /// A table with pods and whole ids.
    Wide,
    /// JSON.
    Json,
}

/// Plans and shows the plan.
pub fn run(args: &PlanArgs) -> Exit {
    match plan(args) {
        Ok(()) => Exit::Success,
        Err(error) => report(&error),
    }
}

fn plan(args: &PlanArgs) -> Result<(), Error> {
    let settings = begin(args.common.loader(std::env::vars_os()).load())?;
    let report = app::node::plan(&args.common.target(), &settings)?;
    let text = match args.output {
        Format::Table => table::plan(&report, false),
        Format::Wide => table::plan(&report, true),
        Format::Json => table::json(&report).map_err(|error| Error::new(ErrorKind::Internal, error))?,
    };
    table::print(&text)
}
