//! The simulation: the whole collector against the embedded API server, in one
//! thread, under a clock that jumps from event to event. A seed decides what users
//! do, what goes wrong, and when; the same seed gives the same run to the last
//! message. An oracle that knows the whole history judges every write at the moment
//! when it takes effect, and the final state.
//!
//! | file | what it does |
//! |---|---|
//! | [`plan`] | which actions and faults a run has |
//! | [`run`], [`rest`] | one run: its steps and its final state |
//! | [`world`], [`types`], [`actions`] | the cluster, and what users do |
//! | [`network`], [`transport`] | faults between the collector and the server |
//! | [`admission`] | webhooks and policies that deny, delay and change writes |
//! | [`collector`], [`lease`] | the real collector, and whether it may write |
//! | [`oracle`], [`judge`] | the rules, and the observer that applies them |
//! | [`sieve`] | the patterns in which controllers fail, and how often a run had each |
//! | [`hunt`], [`shrink`], [`options`], [`cargo`] | many runs, the reduction of failures, the command line |
//! | [`mutations`] | the check that mistakes would be found |
#![expect(clippy::print_stdout, reason = "this is what the person who runs it came for")]

mod actions;
mod admission;
mod cargo;
mod collector;
mod hunt;
mod judge;
mod lease;
mod mutations;
mod network;
mod options;
mod oracle;
mod plan;
mod random;
mod rest;
mod run;
mod shrink;
mod sieve;
mod trace;
mod transport;
mod types;
mod wire;
mod world;

use std::process::ExitCode;

use clap::Parser as _;
use kube_gc_core::mutation;

use self::options::Options;

fn main() -> ExitCode {
    let options = Options::parse();
    if options.cargo.is_for_others("simulation") {
        return ExitCode::SUCCESS;
    }
    hunt::listen();
    let good = match (options.seed, options.seconds) {
        (Some(seed), _) => {
            mutation::choose(options.mutation);
            hunt::replay(seed, &options)
        }
        (None, _) if options.mutations || options.mutation.is_some() => mutations::prove(&options),
        (None, Some(seconds)) => hunt::soak(seconds, &options),
        (None, None) => hunt::check(&options),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
