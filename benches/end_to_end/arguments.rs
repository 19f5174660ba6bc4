//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::identity::Identity;

/// Measures kube-gc on a real API server, next to a bare client and the garbage collector of
/// kube-controller-manager.
///
/// The table goes to standard output, progress to standard error. docs/benchmarks.md says how
/// to read it. The exit code is 0 when everything was measured, whatever came of it.
#[derive(Debug, Parser)]
#[command(name = "end_to_end", bin_name = "cargo bench --bench end_to_end --")]
pub struct Arguments {
    /// The rows to measure, separated by commas; all of them if not given
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    pub rows: Vec<String>,

    /// List the rows, and measure nothing
    #[arg(long)]
    pub list: bool,

    /// How often each row is measured, by each contestant in turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,

    /// How many turns each contestant has in a round, of which the median counts: for a machine
    /// whose speed changes from one minute to the next
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub turns: u16,

    /// How many dependents a cascade has; the other sizes are in proportion to it
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub objects: u32,

    /// Two rounds with 1000 objects: to see that it works, not to judge by
    #[arg(long, conflicts_with_all = ["rounds", "turns", "objects"])]
    pub quick: bool,

    /// The kube-controller-manager to compare with; by default the one that
    /// tests/control-plane/ensure.sh finds or builds
    #[arg(long, value_name = "PATH", conflicts_with = "no_peer")]
    pub peer: Option<PathBuf>,

    /// Leave the peer out
    #[arg(long)]
    pub no_peer: bool,

    /// Let all contestants be in `system:masters`, whose requests the server's priority and
    /// fairness lets pass, and not what the cluster's own collector is
    #[arg(long)]
    pub exempt: bool,

    /// The kube-gc to measure; by default the one that
    /// `cargo build --release --locked --bin kube-gc` makes
    #[arg(long, value_name = "PATH")]
    pub kube_gc: Option<PathBuf>,

    /// Where all figures go as JSON; by default end-to-end.json in the target directory
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// What `cargo bench` says to every benchmark.
    #[arg(long = "bench", hide = true)]
    pub by_cargo: bool,
}

/// How large and how often.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Dependents of one cascade.
    pub objects: usize,
    /// Rounds of each row.
    pub rounds: usize,
    /// Turns of each contestant in a round.
    pub turns: usize,
}

impl Arguments {
    /// Who the contestants are to the API server.
    pub fn identity(&self) -> Identity {
        if self.exempt { Identity::Exempt } else { Identity::Collector }
    }

    /// How large and how often.
    pub fn scale(&self) -> Scale {
        if self.quick {
            return Scale { objects: 1000, rounds: 2, turns: 1 };
        }
        Scale { objects: self.objects as usize, rounds: self.rounds.into(), turns: self.turns.into() }
    }
}
