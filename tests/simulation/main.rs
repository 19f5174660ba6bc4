//! The simulation: the whole collector against the embedded API server, in one
//! thread, under a clock that jumps from event to event. A seed decides what people
//! do, what goes wrong, and when; the same seed gives the same run to the last
//! message. An oracle that knows the whole history judges every write at the moment
//! when it takes effect, and the state when nothing happens any more.
//!
//! | file | what it does |
//! |---|---|
//! | [`plan`] | what a run is made of |
//! | [`run`], [`rest`] | one run: its steps, and its end |
//! | [`world`], [`types`], [`actions`] | the cluster, and what people do |
//! | [`network`], [`transport`] | what goes wrong between collector and server |
//! | [`collector`], [`lease`] | the collector: the real one, and whether it may write |
//! | [`oracle`], [`judge`] | what is right, and who looks at what happens |
//! | [`hunt`], [`shrink`], [`options`] | many runs, small failures, the command line |
//! | [`mutations`] | the proof that mistakes would be found |
#![expect(clippy::print_stdout, reason = "this is what the person who runs it came for")]

mod actions;
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
mod trace;
mod transport;
mod types;
mod world;

use std::process::ExitCode;

use clap::Parser as _;
use kube_gc_core::mutation;

use self::options::Options;

fn main() -> ExitCode {
    let options = Options::parse();
    if options.is_for_others() {
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
