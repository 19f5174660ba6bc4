//! `kube-gc node run`.

use std::net::SocketAddr;

use clap::Args;

use super::arguments::CommonArgs;
use crate::app;
use crate::cli::exit::Exit;
use crate::cli::report;
use crate::cli::shared::{begin, ended};

/// The end of `kube-gc node run --help`.
const EXAMPLES: &str = "\
Examples:
  A dry run: plan again and again, show the plan at /debug/node, remove nothing
    kube-gc node run --dry-run

  Beside a kubelet, only unused images
    KUBE_GC__NODE__BESIDE_KUBELET=images kube-gc node run

Dead containers, sandboxes and logs are collected every `node.period`, images every
`node.images.period`. config/default.toml documents all settings.";

/// The arguments of `kube-gc node run`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", crate::cli::exit::HELP))]
pub struct RunArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Plan and report, but remove nothing
    #[arg(long)]
    dry_run: bool,

    /// Address for /livez, /readyz and /metrics [default: 127.0.0.1:8080]
    ///
    /// Port 0 selects a free port, which the log names.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,

    /// Address for /debug/node [default: 127.0.0.1:8081]
    ///
    /// Anyone who can connect can read it, unless `access.listeners` restricts access.
    #[arg(long, value_name = "ADDR:PORT")]
    debug_listen: Option<SocketAddr>,
}

/// Collects until a signal.
pub fn run(args: &RunArgs) -> Exit {
    let RunArgs { common, dry_run, listen, debug_listen } = args;
    let loader = common
        .loader(std::env::vars_os())
        .flag("--dry-run", "dry_run", dry_run.then_some(true))
        .flag("--listen", "http.listen", listen.map(|address| address.to_string()))
        .flag("--debug-listen", "http.debug_listen", debug_listen.map(|address| address.to_string()));
    let settings = match begin(loader.load()) {
        Ok(settings) => settings,
        Err(error) => return report(&error),
    };
    ended(app::node::run(&common.target(), &settings))
}
