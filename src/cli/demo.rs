//! `kube-gc demo`: its arguments.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use crate::config::{ConfigError, Loader, Settings};
use kube_gc_core::object::PropagationPolicy;

/// For the end of `kube-gc demo --help`.
const EXAMPLES: &str = "\
Examples:
  The story, and then a cluster to play with until Ctrl-C
    kube-gc demo

  The story alone, for machines: one JSON object per line
    kube-gc demo --once -o json

  What does it cost to collect 100000 objects?
    kube-gc demo --once --objects 100000";

/// The arguments of `kube-gc demo`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct DemoArgs {
    /// End after the story, instead of staying up to be played with
    #[arg(long)]
    pub once: bool,

    /// How the story is told: for people, or as one JSON object per line
    ///
    /// In JSON, `event` says what a line is: begin (addresses), shop, act (what was
    /// done, each step with its request and its owners, what was verified), load,
    /// stay, fail, end.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: OutputFormat,

    /// Instead of the story: collect so many objects that one root owns, and say what it cost
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub objects: Option<u32>,

    /// How the root of --objects is deleted
    #[arg(long, value_name = "POLICY", value_enum, default_value_t, requires = "objects")]
    pub policy: Policy,

    /// Address of the Kubernetes API [default: any free port on loopback]
    ///
    /// It has no authentication: whoever reaches it may do everything.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub api_listen: SocketAddr,

    /// Address for /livez, /readyz and /metrics [default: any free port on loopback]
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub listen: SocketAddr,

    /// Address for the /debug pages [default: any free port on loopback]
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub debug_listen: SocketAddr,

    /// Where to write the kubeconfig, which is removed at the end [default: a temporary file]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Show the collector's log on standard error, too: -v all decisions, -vv in detail
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// How the story is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A propagation policy, as kubectl's `--cascade` spells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// The root goes at once, what it owned follows.
    #[default]
    Background,
    /// The root stays until what it owned is gone.
    Foreground,
    /// What it owned lives on.
    Orphan,
}

impl From<Policy> for PropagationPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Background => Self::Background,
            Policy::Foreground => Self::Foreground,
            Policy::Orphan => Self::Orphan,
        }
    }
}

impl DemoArgs {
    /// The collector's configuration: the defaults, and nothing of this machine's,
    /// so that the demo is the same everywhere.
    ///
    /// # Errors
    /// When two of the addresses are one.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
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
            Command::Run(_) => panic!("not a demo"),
        }
    }

    #[test]
    fn it_listens_on_free_ports_and_says_nothing_but_its_story() {
        let args = parse("kube-gc demo").unwrap();
        let settings = args.settings().unwrap();
        assert_eq!((settings.http.listen.port(), settings.http.debug_listen.port()), (0, 0));
        assert!(settings.http.listen.ip().is_loopback() && args.api_listen.ip().is_loopback());
        assert_eq!(settings.log.filter, "off");
    }

    #[test]
    fn a_policy_is_for_a_load() {
        assert!(parse("kube-gc demo --policy orphan").is_err());
        let args = parse("kube-gc demo --objects 5 --policy orphan -o json").unwrap();
        assert_eq!((args.objects, args.policy, args.output), (Some(5), Policy::Orphan, OutputFormat::Json));
        assert!(parse("kube-gc demo --objects 0").is_err());
    }
}
