//! The command line.

use std::collections::BTreeSet;
use std::thread;

use kube_gc_core::mutation::Mutation;

/// Runs the whole collector against an embedded API server in one thread, with
/// everything that people do and everything that goes wrong drawn from a seed, and
/// lets an oracle judge every write.
///
/// Without options: a fixed set of seeds and a fresh one, in about a minute.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "cargo test --test simulation --", after_help = EXAMPLES)]
pub struct Options {
    /// Runs this seed alone and prints all that happens
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Ends the run after so many steps [default: as the seed says, 200 to 500]
    #[arg(long, value_name = "M")]
    pub steps: Option<usize>,
    /// Leaves steps out, such as 3,7-12
    #[arg(long, value_name = "STEPS", value_parser = parse_steps)]
    pub without: Option<Steps>,
    /// Does not print what happens, only what is wrong
    #[arg(long)]
    pub quiet: bool,
    /// Prints the collector's own log, too, with this filter, such as debug
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Runs fresh seeds for so long, on all cores
    #[arg(long, value_name = "S")]
    pub seconds: Option<u64>,
    /// Runs so many seeds at a time [default: one on each core]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// The first of the fresh seeds [default: random]
    #[arg(long, value_name = "N")]
    pub from: Option<u64>,
    /// Makes every mistake of the list on purpose, and sees that each is caught
    #[arg(long)]
    pub mutations: bool,
    /// Makes this mistake only, such as TrustOldList; with --seed, in that run
    #[arg(long, value_name = "NAME", value_parser = parse_mutation)]
    pub mutation: Option<Mutation>,
    /// Gives a mistake up after so many seeds
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub seeds: u64,
    // What `cargo test` passes to every test binary.
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
    /// Whether `cargo test` asks for tests of another name, or only for their names.
    pub fn is_for_others(&self) -> bool {
        self.list
            || self.ignored
            || self.filter.as_ref().is_some_and(|filter| !"simulation".contains(&**filter))
    }

    /// How many seeds to run at a time.
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
