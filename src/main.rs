//! The binary: parses the command line and ends with a documented exit code.

use std::process::ExitCode;

use clap::Parser;
use kube_gc::cli::{Cli, Command};
use kube_gc::telemetry::logging;

/// Not the system's: `Cargo.toml` says why, `.cargo/config.toml` how it is set.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let exit = match Cli::parse().command {
        Command::Run(args) => kube_gc::cli::run(&args),
        Command::Demo(args) => kube_gc::demo::run(&args),
    };
    logging::flush();
    exit.into()
}
