//! Random worlds: a node with pods, containers, sandboxes, images and logs, ordinary and odd, decided
//! by a seed. Each is planned for, the plan is checked, and it is carried out on a node that goes on
//! living meanwhile: containers start, others remove things, the runtime fails.
//!
//! ```sh
//! cargo test -p kube-gc-node --test worlds                          # some worlds, and every mistake
//! cargo test -p kube-gc-node --test worlds -- --worlds 1000000      # many
//! cargo test -p kube-gc-node --test worlds -- --seed 42             # one
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | [`judge`] | what must hold for a world and its plan |
//! | [`live`] | carries out a plan on a living node |
//! | [`clock`] | a history in which the time of day is set |
//! | [`hunt`] | many worlds, and the proof that mistakes would be found |

#![allow(clippy::print_stdout, reason = "this is what the person who runs it came for")]

mod clock;
mod hunt;
mod judge;
mod live;

use std::process::ExitCode;

use kube_gc_node::testing::Options;

/// How many worlds there are without `--worlds`.
const WORLDS: u64 = 2000;

fn main() -> ExitCode {
    let options = match Options::parse("worlds", WORLDS, std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let good = match options {
        Options::Nothing => true,
        Options::One(seed) => hunt::replay(seed),
        Options::Many(worlds) => hunt::check(worlds) && hunt::prove_mutations(),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
