//! The command line.

use std::thread;

use kube_gc_core::mutation::Mutation;
use tracing_subscriber::filter::Targets;

use super::cargo::{self, Cargo};

/// How many fixed seeds the gate runs.
pub const FIXED: u64 = 24;

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
    /// With --seed: also prints the collector's log, with this filter, for example debug
    #[arg(long, value_name = "FILTER")]
    pub log: Option<Targets>,
    /// How many fixed seeds to run
    #[arg(long, value_name = "N", default_value_t = FIXED)]
    pub fixed: u64,
    /// Runs fresh seeds for this many seconds, on all cores
    #[arg(long, value_name = "S")]
    pub seconds: Option<u64>,
    /// The first of the fresh seeds [default: random]
    #[arg(long, value_name = "N")]
    pub from: Option<u64>,
    /// Makes each of the deliberate mistakes and checks that it is caught
    #[arg(long)]
    pub mutations: bool,
    /// Makes only this mistake, for example TrustOldList; with --seed, in that run
    #[arg(long, value_name = "NAME", value_parser = cargo::mutation)]
    pub mutation: Option<Mutation>,
    /// Gives up on a mistake after this many seeds
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub seeds: usize,
    #[command(flatten)]
    pub cargo: Cargo,
}

const EXAMPLES: &str = "\
Examples:
  cargo test --test simulation -- --seed 42               what happens with seed 42
  cargo test --test simulation -- --seed 42 --log debug   and what the collector says
  cargo test --test simulation -- --mutations             would it find mistakes?
  make soak SECONDS=600                                   ten minutes of fresh seeds, optimised";

/// How many seeds run at a time.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}
