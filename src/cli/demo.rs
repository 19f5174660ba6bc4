//! `kube-gc demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::exit::Exit;
use super::report;
use super::shared::Cascade;
use crate::app::{Error, ErrorKind};
use crate::demo::{self, Format, Options};
use kube_gc_config::{ConfigError, Loader, Settings};
use kube_gc_observe::telemetry::logging;

/// The end of `kube-gc demo --help`.
const EXAMPLES: &str = "\
Examples:
  Run the scenarios, then keep the cluster running until Ctrl-C
    kube-gc demo

  Run the scenarios only, and write one JSON object per line
    kube-gc demo --once -o json

  Measure the collection of 100000 objects
    kube-gc demo --once --objects 100000

  Show node collection: a full disk, a plan, and what came of it
    kube-gc demo --node";

/// The arguments of `kube-gc demo`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct DemoArgs {
    /// Exit after the scenarios instead of keeping the cluster running
    #[arg(long)]
    once: bool,

    /// Format of the output: text, or one JSON object per line
    ///
    /// In JSON, `event` is the type of a line: begin (addresses), shop, scenario (each
    /// operation, the steps that followed with their requests and owners, and what was
    /// verified), load, stay (still running), fail, end.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    /// Show node collection instead: dead containers, sandboxes, logs and images of one node
    ///
    /// The container runtime is inside the process, so nothing on this machine is touched, and root is
    /// not needed. Ends after the scenarios. In JSON, `event` is node (what there is), plan and pass (with the
    /// `report` that `kube-gc node` prints, and what was verified), fail, end.
    #[cfg(feature = "node")]
    #[arg(long, conflicts_with_all = ["objects", "policy", "api_listen", "listen", "debug_listen", "kubeconfig"])]
    node: bool,

    /// Collect this many dependents of one owner instead, and measure the cost
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    objects: Option<u32>,

    /// Propagation policy for the owner of --objects
    #[arg(long, value_name = "POLICY", value_enum, default_value_t, requires = "objects")]
    policy: Cascade,

    /// Address of the Kubernetes API [default: any free port on loopback]
    ///
    /// The API has no authentication: everybody who can connect has full access.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", hide_default_value = true)]
    api_listen: SocketAddr,

    /// Address for /livez, /readyz and /metrics [default: any free port on loopback]
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", hide_default_value = true)]
    listen: SocketAddr,

    /// Address for the /debug pages [default: any free port on loopback]
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", hide_default_value = true)]
    debug_listen: SocketAddr,

    /// File for the kubeconfig, removed at the end [default: a temporary file]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Show the log of the collector on standard error: -v for decisions, -vv for details
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

/// Runs the demo. Errors are on standard error.
pub fn run(args: &DemoArgs) -> Exit {
    match args.run() {
        Ok(()) => Exit::Success,
        Err(error) => report(&error),
    }
}

impl DemoArgs {
    fn run(&self) -> Result<(), Error> {
        let options = self.options()?;
        #[cfg(feature = "node")]
        if self.node {
            return demo::node::run(options.output, super::node::text);
        }
        demo::run(&options)
    }

    fn options(&self) -> Result<Options, Error> {
        let settings = self.settings().map_err(|error| Error::new(ErrorKind::Settings, error))?;
        logging::init(&settings.log).map_err(|error| Error::new(ErrorKind::Internal, error))?;
        Ok(Options {
            load: self.objects.map(|objects| (objects, self.policy.into())),
            once: self.once,
            output: self.output,
            api_listen: self.api_listen,
            kubeconfig: self.kubeconfig.clone(),
            settings,
        })
    }

    /// The configuration of the collector: the defaults, without the configuration of this machine,
    /// so that the demo is the same everywhere.
    ///
    /// # Errors
    /// Two of the addresses are equal.
    fn settings(&self) -> Result<Settings, ConfigError> {
        let filter = match self.verbose {
            0 => "off",
            1 => "info",
            _ => "info,kube_gc=debug",
        };
        Loader::new()
            .flag("--listen", "http.listen", Some(self.listen.to_string()))
            .flag("--debug-listen", "http.debug_listen", Some(self.debug_listen.to_string()))
            .flag("--verbose", "log.filter", Some(filter))
            .load()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;

    fn parse(line: &str) -> Result<DemoArgs, clap::Error> {
        match Cli::try_parse_from(line.split(' '))?.command {
            Command::Demo(args) => Ok(args),
            _ => panic!("not a demo"),
        }
    }

    #[test]
    fn it_listens_on_free_ports_and_does_not_log() {
        let args = parse("kube-gc demo").unwrap();
        let settings = args.settings().unwrap();
        assert_eq!((settings.http.listen.port(), settings.http.debug_listen.port()), (0, 0));
        assert!(settings.http.listen.ip().is_loopback() && args.api_listen.ip().is_loopback());
        assert_eq!(settings.log.filter, "off");
    }

    #[test]
    fn a_policy_requires_a_load() {
        assert!(parse("kube-gc demo --policy orphan").is_err());
        let args = parse("kube-gc demo --objects 5 --policy orphan -o json").unwrap();
        assert_eq!((args.objects, args.policy, args.output), (Some(5), Cascade::Orphan, Format::Json));
        assert!(parse("kube-gc demo --objects 0").is_err());
    }
}
