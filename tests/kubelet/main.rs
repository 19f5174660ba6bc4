//! Node collection removes what the kubelet removes: random worlds on a container runtime inside the
//! process, collected by the kubelet's own functions and, from the same beginning, by kube-gc. What
//! goes beyond the kubelet's rules is off. Containers, sandboxes, images and log files that are left
//! must be the same, and containers of one name and images must go in the same order.
//!
//! The functions are those of Kubernetes 1.20.2, which `tests/node-oracle` builds.
//!
//! ```sh
//! cargo test --locked --test kubelet                       # some worlds
//! cargo test --locked --test kubelet -- --worlds 10000     # more
//! cargo test --locked --test kubelet -- --seed 42          # one, with all reasons
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | [`case`], [`pods`], [`files`] | a random world; `case` lists what it never contains, and why |
//! | [`run`], [`server`] | lets both collect it; the API server that kube-gc asks |
//! | [`compare`] | what must be the same |

#![allow(clippy::print_stdout, reason = "this is what the person who runs it came for")]

mod case;
mod compare;
mod files;
mod pods;
mod run;
mod server;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use kube_gc_node::testing::Options;

use compare::{Counts, differences};
use run::Stage;

/// How many worlds there are without `--worlds`: half a minute on two cores.
const WORLDS: u64 = 1000;
/// The most worlds with differences that are described.
const MOST_SHOWN: usize = 5;

fn main() -> ExitCode {
    let options = Options::parse("kubelet", WORLDS, std::env::args().skip(1));
    let good = match options {
        Ok(Options::Nothing) => Ok(true),
        Ok(Options::One(seed)) => on_runtime(one(seed)),
        Ok(Options::Many(worlds)) => on_runtime(all(worlds)),
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn on_runtime<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(work)
}

async fn one(seed: u64) -> Result<bool> {
    let both = Stage::set().await?.run(seed).await?;
    for reason in &both.reasons {
        println!("{reason}");
    }
    println!("{both}");
    let different = differences(&both);
    for difference in &different {
        println!("seed {seed}: {difference}");
    }
    Ok(different.is_empty())
}

async fn all(worlds: u64) -> Result<bool> {
    let mut stage = Stage::set().await?;
    let started = Instant::now();
    let mut counts = Counts::default();
    let mut wrong = 0;
    for seed in 0..worlds {
        let both = stage.run(seed).await?;
        counts.add(&both);
        let different = differences(&both);
        if !different.is_empty() {
            wrong += 1;
        }
        for difference in different.iter().filter(|_| wrong <= MOST_SHOWN) {
            println!("seed {seed}: {difference}");
        }
    }
    println!("kubelet: {worlds} worlds in {:.1?}, {wrong} with differences; {counts}", started.elapsed());
    // A world in which nothing happens shows nothing.
    let varied = counts.is_varied() || worlds < 100;
    if !varied {
        println!("kubelet: too little of one kind was removed or kept");
    }
    Ok(wrong == 0 && varied)
}
