//! `kube-gc node once`.

use clap::Args;

use super::arguments::CommonArgs;
use super::table;
use crate::app::{self, Error};
use crate::cli::exit::Exit;
use crate::cli::report;
use crate::cli::shared::begin;

/// The end of `kube-gc node once --help`.
const EXAMPLES: &str = "\
Examples:
  Collect by the rules: images only if the disk is fuller than `node.high`
    kube-gc node once

  Remove unused images until a third of the disk is free
    kube-gc node once --free 33

  Show what that would remove
    kube-gc node once --free 33 --dry-run";

/// The arguments of `kube-gc node once`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", crate::cli::exit::HELP))]
pub struct OnceArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Remove unused images until so much of their file system is free, whatever the thresholds
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=99))]
    free: Option<u8>,

    /// Show the plan of the pass instead of carrying it out
    #[arg(long)]
    dry_run: bool,
}

/// Collects once and says what came of it.
pub fn run(args: &OnceArgs) -> Exit {
    match once(args) {
        Ok(exit) => exit,
        Err(error) => report(&error),
    }
}

fn once(args: &OnceArgs) -> Result<Exit, Error> {
    let loader = args.common.loader(std::env::vars_os());
    let settings = begin(loader.flag("--dry-run", "dry_run", args.dry_run.then_some(true)).load())?;
    let report = app::node::once(&args.common.target(), &settings, args.free)?;
    match &report.result {
        None => table::print(&table::plan(&report, false))?,
        Some(result) => {
            table::print(&table::result(&report, result))?;
            if !result.is_complete() || report.plan.leaves_due {
                return Ok(Exit::Incomplete);
            }
        }
    }
    Ok(Exit::Success)
}
