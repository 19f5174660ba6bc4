//! The binary: parses the command line and ends with a documented exit code.

use std::process::ExitCode;

use clap::Parser;
use kube_gc::cli::{Cli, Command};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => kube_gc::cli::run(&args).into(),
        Command::Demo(args) => kube_gc::demo::run(&args).into(),
    }
}
