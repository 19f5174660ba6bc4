//! The command line.

use std::thread;

use kube_gc_core::mutation::Mutation;
use tracing_subscriber::filter::Targets;

/// Runs the whole collector against an embedded API server in one thread. A seed determines what
/// users do and what goes wrong, and an oracle judges every write.
///
/// Without options, runs a fixed set of seeds and a fresh one.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "cargo test --test simulation --", after_help = EXAMPLES)]
pub struct Options {
    /// Runs only this seed and prints every step
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// With --seed: runs only these steps, for example 3,7,8
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    pub only: Option<Vec<usize>>,
    /// With --seed: prints only failures, not the steps
    #[arg(long)]
    pub quiet: bool,
    /// With --seed: also prints the collector's log, with this filter, for example debug
    #[arg(long, value_name = "FILTER")]
    pub log: Option<Targets>,
    /// How many fixed seeds to run
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub fixed: u64,
    /// Runs fresh seeds for this many seconds, on all cores
    #[arg(long, value_name = "S")]
    pub seconds: Option<u64>,
    /// Runs this many seeds at a time [default: one on each core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The first of the fresh seeds [default: random]
    #[arg(long, value_name = "N")]
    pub from: Option<u64>,
    /// Makes each of the deliberate mistakes and checks that it is caught
    #[arg(long)]
    pub mutations: bool,
    /// Makes only this mistake, for example TrustOldList; with --seed, in that run
    #[arg(long, value_name = "NAME", value_parser = parse_mutation)]
    pub mutation: Option<Mutation>,
    /// Gives up on a mistake after this many seeds
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub seeds: usize,
    // `cargo test` passes these to every test binary.
    #[arg(hide = true)]
    filter: Option<String>,
    #[arg(long, hide = true)]
    nocapture: bool,
    #[arg(long, hide = true)]
    list: bool,
    #[arg(long, hide = true)]
    exact: bool,
    #[arg(long, hide = true)]
    test_threads: Option<String>,
    #[arg(long, hide = true)]
    format: Option<String>,
    #[arg(long, hide = true)]
    ignored: bool,
}

const EXAMPLES: &str = "\
Examples:
  cargo test --test simulation -- --seed 42               what happens with seed 42
  cargo test --test simulation -- --seed 42 --log debug   and what the collector says
  cargo test --test simulation -- --mutations             would it find mistakes?
  make soak SECONDS=600                                   ten minutes of fresh seeds, optimised";

impl Options {
    /// Whether `cargo test` asks for tests with other names, or only for their names.
    pub fn is_for_others(&self) -> bool {
        self.list
            || self.ignored
            || self.filter.as_ref().is_some_and(|filter| !"simulation".contains(&**filter))
    }

    /// How many seeds run at a time.
    pub fn threads(&self) -> usize {
        self.threads.or_else(|| thread::available_parallelism().ok().map(Into::into)).unwrap_or(1)
    }
}

fn parse_mutation(text: &str) -> Result<Mutation, String> {
    let found = Mutation::ALL.iter().find(|mutation| format!("{mutation:?}") == text);
    found.copied().ok_or_else(|| format!("the mistakes are {:?}", Mutation::ALL))
}
