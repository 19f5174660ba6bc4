//! The command line: arguments, one file per subcommand, and exit codes.

mod candidates;
mod completion;
#[cfg(feature = "demo")]
mod demo;
mod exit;
mod invoked;
#[cfg(all(test, feature = "node"))]
mod man_tests;
#[cfg(feature = "node")]
mod node;
mod questions;
mod run;
mod shared;
mod text;

use std::process::ExitCode;

use clap::error::ContextKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::app::Error;
use invoked::Invoked;
use kube_gc_observe::telemetry::logging;

/// The command line of `kube-gc`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "kube-gc",
    version,
    about = "A garbage collector for Kubernetes",
    long_about = "A garbage collector for Kubernetes: deletes the dependents of deleted objects, orphans dependents \
                  that should stay, keeps owners until their dependents are gone, and gives the reason for each \
                  decision.\n\n\
                  It does the work of kube-controller-manager's garbage collector. Run it where there is none \
                  (envtest, a bare API server), or where that one is disabled.",
    after_long_help = "The --help of each command has its exit codes.",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Watch a cluster and collect its garbage, until SIGTERM or SIGINT
    Run(run::RunArgs),
    #[command(flatten)]
    Question(questions::Question),
    /// Collect one node: dead containers, sandboxes, logs and unused images, over CRI
    #[cfg(feature = "node")]
    Node(node::NodeArgs),
    /// Show how it works: a Kubernetes API server, a small shop and a collector, in one process
    #[cfg(feature = "demo")]
    Demo(demo::DemoArgs),
    /// Print a script that completes command lines in a shell
    Completion(completion::CompletionArgs),
}

/// Parses the arguments of this process, runs the subcommand, and returns the exit code.
pub fn main() -> ExitCode {
    let invoked = Invoked::detect();
    if let Some(exit) = completion::asked(|| candidates::from_cluster(invoked.adapt(Cli::command()))) {
        return exit.into();
    }
    let mut command = invoked.adapt(Cli::command());
    if invoked == Invoked::ToComplete {
        return completion::candidates(candidates::from_cluster(command)).into();
    }
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.unwrap_or_else(|mut error| {
        // No value begins with a dash, so the tip to pass a flag as one is of no use.
        error.remove(ContextKind::Suggested);
        error.exit()
    });
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit());
    let exit = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Question(question) => question.ask(),
        Command::Completion(args) => completion::run(&args, invoked),
        #[cfg(feature = "node")]
        Command::Node(args) => node::run(&args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(&args),
    };
    logging::flush();
    exit.into()
}

/// Writes an error to standard error, for commands without a log.
#[expect(clippy::print_stderr, reason = "there is no log yet")]
fn report(error: &Error) -> exit::Exit {
    eprintln!("{}: {error}", Invoked::detect().program());
    error.kind().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_fits_a_terminal_and_describes_each_argument() {
        let cli = Cli::command();
        let nested = cli.get_subcommands().flat_map(clap::Command::get_subcommands);
        for command in cli.get_subcommands().chain(nested).chain([&cli]).cloned() {
            let mut command = command.term_width(100);
            for line in command.render_long_help().to_string().lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}", argument.get_id());
            }
        }
    }

    #[test]
    fn the_help_of_a_question_is_grouped() {
        for command in Cli::command().get_subcommands_mut() {
            if !["tree", "explain", "check", "plan", "stuck"].contains(&command.get_name()) {
                continue;
            }
            let help = command.render_long_help().to_string();
            let headings: Vec<&str> = help.lines().filter_map(|line| line.strip_suffix(':')).collect();
            let headings = headings.into_iter().filter(|heading| !heading.starts_with(' '));
            let expected =
                ["Object", "Output", "Source of the answer", "Connection", "Examples", "Exit codes"];
            assert!(headings.clone().filter(|heading| *heading != "Options").eq(expected), "{help}");
        }
    }

    #[test]
    fn as_a_plugin_it_has_one_name_everywhere() {
        let mut plugin = Invoked::AsPlugin.adapt(Cli::command());
        plugin.build();
        for command in plugin.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let help = command.render_long_help().to_string();
            assert!(help.contains(&format!("Usage: kubectl gc {}", command.get_name())), "{help}");
            let mut examples = help.lines().filter(|line| line.starts_with("    kube"));
            assert!(examples.all(|line| line.starts_with("    kubectl ")), "{help}");
        }
        let error = plugin.try_get_matches_from_mut(["kubectl-gc", "tree"]).unwrap_err().to_string();
        assert!(error.contains("Usage: kubectl gc tree"), "{error}");
    }
}
