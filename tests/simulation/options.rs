//! The command line.

use std::collections::BTreeSet;
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
    /// Ends the run after this many steps [default: as the seed says, 200 to 500]
    #[arg(long, value_name = "M")]
    pub steps: Option<usize>,
    /// Leaves out steps, for example 3,7-12
    #[arg(long, value_name = "STEPS", value_parser = parse_steps)]
    pub without: Option<Steps>,
    /// Prints only failures, not the steps
    #[arg(long)]
    pub quiet: bool,
    /// Also prints the collector's log, with this filter, for example debug
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
    pub threads: Option<usize>,
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
    pub seeds: u64,
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

/// Steps of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps(pub BTreeSet<usize>);

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
    let known = || Mutation::ALL.iter().map(|mutation| (*mutation, format!("{mutation:?}")));
    known().find(|(_, name)| name == text).map(|(mutation, _)| mutation).ok_or_else(|| {
        let names: Vec<String> = known().map(|(_, name)| name).collect();
        format!("the mistakes are {}", names.join(", "))
    })
}

fn parse_steps(text: &str) -> Result<Steps, String> {
    let number = |text: &str| text.parse::<usize>().map_err(|error| format!("{text:?}: {error}"));
    let mut steps = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        match part.split_once('-') {
            Some((first, last)) => steps.extend(number(first)?..=number(last)?),
            None => steps.extend([number(part)?]),
        }
    }
    Ok(Steps(steps))
}

impl std::fmt::Display for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut steps = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = steps.next() {
            let mut last = first;
            while let Some(next) = steps.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}
