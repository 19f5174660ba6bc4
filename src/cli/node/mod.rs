//! `kube-gc node`: one file per subcommand.

mod arguments;
mod once;
mod plan;
mod run;
mod table;

use clap::{Args, Subcommand};

use super::exit::Exit;

/// The end of `kube-gc node --help`.
const EXAMPLES: &str = "\
Examples:
  What would go, what stays, and why
    kube-gc node plan

  Free a third of the disk now, on a host without a kubelet
    kube-gc node once --free 33

  On a host without an API server
    KUBE_GC__NODE__PODS=none kube-gc node once

Beside a kubelet, once and run remove nothing unless `node.beside_kubelet` allows it.
docs/node.md describes the rules by their numbers.";

/// The arguments of `kube-gc node`.
#[derive(Args, Clone, Debug)]
#[command(arg_required_else_help = true, after_long_help = EXAMPLES)]
pub struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum NodeCommand {
    /// Show what would be removed from this node, what stays, and why; remove nothing
    Plan(plan::PlanArgs),
    /// Collect this node once: dead containers, sandboxes, logs, unused images
    Once(once::OnceArgs),
    /// Collect this node again and again, until SIGTERM or SIGINT
    Run(run::RunArgs),
}

/// Runs a subcommand of `kube-gc node`.
pub fn run(args: &NodeArgs) -> Exit {
    match &args.command {
        NodeCommand::Plan(args) => plan::run(args),
        NodeCommand::Once(args) => once::run(args),
        NodeCommand::Run(args) => run::run(args),
    }
}
