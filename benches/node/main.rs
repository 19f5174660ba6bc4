//! Node collection beside the kubelet's own functions (1.20.2), on a container runtime inside this
//! process: 500 containers and 1,000 images.
//!
//! ```sh
//! make bench-node                     # five rounds
//! make bench-node ARGS="--rounds 1 --kube-gc PATH"      # another binary than the one built for this
//! ```
//!
//! Both contestants are processes of their own and find the same node. The runtime counts their calls.
//! docs/benchmarks.md explains the rows.

#![allow(clippy::print_stdout, reason = "this is what the person who runs it came for")]
#![allow(missing_docs, reason = "a program")]

mod contestants;
mod process;
mod report;
mod world;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use contestants::{KubeGc, TheKubelet};
use world::Host;

const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let Some(options) = options()? else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(options))
}

struct Options {
    rounds: usize,
    kube_gc: PathBuf,
}

/// The command line; nothing if somebody only lists tests.
fn options() -> Result<Option<Options>> {
    let mut options = Options { rounds: ROUNDS, kube_gc: env!("CARGO_BIN_EXE_kube-gc").into() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => options.rounds = value()?.parse()?,
            "--kube-gc" => options.kube_gc = value()?.into(),
            "--list" | "--test" => return Ok(None),
            "--bench" => {}
            other => bail!("unknown argument {other}; there are --rounds NUMBER and --kube-gc PATH"),
        }
    }
    Ok(Some(options))
}

async fn measure(options: Options) -> Result<()> {
    let host = Host::start()?;
    let mut kubelet = TheKubelet::start(&host).await?;
    let kube_gc = KubeGc::new(&host, options.kube_gc);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        // Each begins every other round, because the speed of a machine changes.
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                theirs.push(kubelet.turn(&host).await?);
            } else {
                ours.push(kube_gc.turn(&host).await?);
            }
        }
    }
    print!("{}", report::page(&theirs, &ours)?);
    Ok(())
}
