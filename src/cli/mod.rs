//! The command line: arguments, one file per subcommand, and exit codes.

mod collect;
mod collector;
mod demo;
mod exit;
mod failure;
mod leading;
mod request_metrics;
mod rest;
mod run;
mod serving;
mod system;

pub use collect::run;
pub use demo::{DemoArgs, OutputFormat, Policy};
pub use exit::Exit;
pub use run::RunArgs;

pub(crate) use collector::{Collector, api_settings};
pub(crate) use failure::Failure;
pub(crate) use serving::Protections;
pub(crate) use system::{Threads, block_on_all_threads, ended_by_signal};

use clap::{Parser, Subcommand};

/// The command line of `kube-gc`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "kube-gc",
    version,
    about = "A garbage collector for Kubernetes",
    long_about = "A garbage collector for Kubernetes: deletes what deleted objects owned, cuts loose what should live \
                  on, holds back what has to wait for its dependents, and says why.\n\n\
                  It does the work of kube-controller-manager's garbage collector. Run it where there is none \
                  (envtest, a bare API server), or where that one is switched off.",
    after_long_help = exit::HELP,
    arg_required_else_help = true,
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Watch a cluster and collect its garbage, until SIGTERM or SIGINT.
    Run(RunArgs),
    /// Show it: a Kubernetes API server, a small shop and a collector, all in this process
    Demo(DemoArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_is_for_reading() {
        let cli = Cli::command();
        for command in cli.get_subcommands().chain([&cli]).cloned() {
            let mut command = command.term_width(100);
            for line in command.render_long_help().to_string().lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}", argument.get_id());
            }
        }
    }
}
