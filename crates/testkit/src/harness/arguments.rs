//! The command line.

use std::num::NonZero;
use std::thread::available_parallelism;

use clap::Parser;

/// Runs scenarios.
#[derive(Debug, Parser)]
pub(super) struct Arguments {
    /// Only scenarios whose names contain one of these
    filters: Vec<String>,
    /// No scenarios whose names contain this; may be repeated
    #[arg(long)]
    skip: Vec<String>,
    /// Only scenarios whose names are equal to a filter or to what is skipped
    #[arg(long)]
    exact: bool,
    /// Only what `make nightly` runs. Without it and without names, only what the gate runs
    #[arg(long)]
    nightly: bool,
    /// Lists the scenarios, and runs none
    #[arg(long)]
    pub(super) list: bool,
    /// How many scenarios run at the same time [default: one more than there are cores]
    #[arg(long, env = "RUST_TEST_THREADS")]
    test_threads: Option<NonZero<usize>>,
    /// Has no effect: output is always shown
    #[arg(long)]
    nocapture: bool,
    /// Has no effect: output is always shown
    #[arg(long)]
    show_output: bool,
    /// Has no effect
    #[arg(long, short)]
    quiet: bool,
}

impl Arguments {
    pub(super) fn selects(&self, name: &str, is_nightly: bool) -> bool {
        let is_meant = is_nightly == self.nightly || !self.nightly && !self.filters.is_empty();
        let matches = |text: &String| if self.exact { name == text } else { name.contains(text.as_str()) };
        is_meant
            && (self.filters.is_empty() || self.filters.iter().any(matches))
            && !self.skip.iter().any(matches)
    }

    pub(super) fn threads(&self) -> usize {
        // Scenarios mostly wait and rarely compute.
        let usual = || available_parallelism().map_or(1, NonZero::get) + 1;
        self.test_threads.map_or_else(usual, NonZero::get)
    }
}
