//! Node collection beside the kubelet's own functions (1.20.2), on a container runtime inside this
//! process: 500 containers and 1,000 images.
//!
//! ```sh
//! make bench-node                     # five rounds
//! make bench-node ARGS="--rounds 1"
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

use anyhow::{Context as _, Result, bail};

use contestants::{KubeGc, TheKubelet};
use report::Table;
use world::Host;

const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let Some(rounds) = rounds()? else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(rounds))
}

/// How many rounds; nothing if somebody only lists tests.
fn rounds() -> Result<Option<usize>> {
    let mut rounds = ROUNDS;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = arguments.next().context("--rounds needs a number")?.parse()?,
            "--list" | "--test" => return Ok(None),
            "--bench" => {}
            other => bail!("unknown argument {other}; there is only --rounds NUMBER"),
        }
    }
    Ok(Some(rounds))
}

async fn measure(rounds: usize) -> Result<()> {
    let host = Host::start()?;
    let mut kubelet = TheKubelet::start(&host).await?;
    let kube_gc = KubeGc::new(&host);
    let mut table = Table::default();
    for round in 0..rounds {
        // Each begins every other round, because the speed of a machine changes.
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                table.kubelet(kubelet.idle(&host).await?, kubelet.dead_containers(&host).await?);
            } else {
                table.kube_gc(kube_gc.idle(&host).await?, kube_gc.dead_containers(&host).await?);
            }
        }
    }
    print!("{}", table.page()?);
    if table.is_met() { Ok(()) } else { bail!("a target was missed") }
}
