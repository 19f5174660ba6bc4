//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::identity::Identity;

/// Compares kube-gc with a bare client and the garbage collector of kube-controller-manager, on a
/// real API server.
///
/// The table goes to standard output, progress to standard error. docs/benchmarks.md explains how
/// to read it. The exit code is 0 if everything was measured, whether or not the targets are met.
#[derive(Debug, Parser)]
#[command(name = "end_to_end", bin_name = "cargo bench --bench end_to_end --")]
pub struct Arguments {
    /// The rows to measure, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    pub rows: Vec<String>,

    /// List the rows and measure nothing
    #[arg(long)]
    pub list: bool,

    /// The number of rounds. In each one, every contestant measures each row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,

    /// The number of turns of each contestant in a round, of which the median counts: for a
    /// machine whose speed changes from minute to minute
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub turns: u16,

    /// The number of dependents in a cascade. The other sizes are in proportion to it
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub objects: u32,

    /// Two rounds with 1000 objects, to see that everything works
    #[arg(long, conflicts_with_all = ["rounds", "turns", "objects"])]
    pub quick: bool,

    /// The kube-controller-manager to compare with [default: the one that
    /// tests/control-plane/ensure.sh finds or builds]
    #[arg(long, value_name = "PATH", conflicts_with = "no_peer")]
    pub peer: Option<PathBuf>,

    /// Measure without kube-controller-manager
    #[arg(long)]
    pub no_peer: bool,

    /// Put all contestants into `system:masters`, whose requests the server's priority and
    /// fairness does not limit, instead of the service account of the cluster's own collector
    #[arg(long)]
    pub exempt: bool,

    /// The kube-gc to measure [default: the one that `cargo build --release --locked --bin
    /// kube-gc` builds]
    #[arg(long, value_name = "PATH")]
    pub kube_gc: Option<PathBuf>,

    /// The file for all figures as JSON [default: end-to-end.json in the target directory]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// `cargo bench` passes this to every benchmark.
    #[arg(long = "bench", hide = true)]
    pub by_cargo: bool,
}

/// The size of the measurements.
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
    /// The identity of the contestants on the API server.
    pub fn identity(&self) -> Identity {
        if self.exempt { Identity::Exempt } else { Identity::Collector }
    }

    /// The size of the measurements.
    pub fn scale(&self) -> Scale {
        if self.quick {
            return Scale { objects: 1000, rounds: 2, turns: 1 };
        }
        Scale { objects: self.objects as usize, rounds: self.rounds.into(), turns: self.turns.into() }
    }
}
