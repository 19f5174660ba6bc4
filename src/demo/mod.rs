//! `kube-gc demo`: an API server, a small shop and a collector in one process, and
//! scenarios that show what follows from a deletion.
//!
//! | module | content |
//! |---|---|
//! | `shop` | the objects, what happens to them, and the expected result: data |
//! | `cluster` | the embedded server and the collector; a user who acts like kubectl |
//! | `recorder` | the collector's requests and decisions |
//! | `scenarios`, `load` | run the scenarios, or collect many objects; both verify the result |
//! | `output` | the results, as text and as JSON |
//! | `node` | `kube-gc demo --node`: node collection instead, on a container runtime in the process |

mod cluster;
mod load;
#[cfg(feature = "node")]
pub mod node;
mod output;
mod recorder;
mod scenarios;
mod shop;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::app::process::{Threads, block_on, termination, unmarked};
use crate::app::{Error, ErrorKind};
use cluster::Cluster;
use kube_gc_config::{Settings, available_cores};
use kube_gc_core::object::PropagationPolicy;
pub use output::Format;
use output::Output;
use recorder::Recorder;

/// What the demo does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Collect so many dependents of one owner, which is deleted with this policy, instead of running
    /// the scenarios.
    pub load: Option<(u32, PropagationPolicy)>,
    /// Exit afterwards, instead of keeping the cluster running until a signal.
    pub once: bool,
    /// The format of the output.
    pub output: Format,
    /// The address of the Kubernetes API.
    pub api_listen: SocketAddr,
    /// The kubeconfig file to write; `None` creates a temporary file.
    pub kubeconfig: Option<PathBuf>,
    /// The settings of the collector.
    pub settings: Settings,
}

/// Runs the demo.
///
/// # Errors
/// The demo cannot start, or a scenario does not end as expected.
pub fn run(options: &Options) -> Result<(), Error> {
    let list_threads = options.settings.watch.list_thread_count(available_cores());
    block_on(list_threads, unmarked, |threads| demo(options, threads))?
}

async fn demo(options: &Options, threads: Threads) -> Result<(), Error> {
    // Before anything that takes long, so that no signal is missed.
    let terminated = termination()?;
    let recorder = Recorder::new();
    let cluster = Cluster::start(options, &threads, &recorder).await?;
    let output = Output::new(options.output);
    output.text(&output::begin(&cluster.endpoints));
    output.event("begin", &cluster.endpoints);
    let running = async {
        let result = match options.load {
            Some((objects, policy)) => load::run(&cluster, &recorder, &output, objects, policy).await,
            None => scenarios::run(&cluster, &recorder, &output).await,
        };
        result.map_err(|error| Error::new(ErrorKind::Internal, error))?;
        // In time, also the use of the demo after its scenarios causes too many requests to keep.
        recorder.restart(false);
        if options.once {
            return Ok(());
        }
        output.text(&output::keeps_running(&cluster.endpoints, options.load.is_some()));
        output.event("stay", &cluster.endpoints);
        std::future::pending().await
    };
    let result = tokio::select! {
        biased;
        _ = terminated => Ok(()),
        ended = running => ended,
        error = cluster.fails() => Err(error),
    };
    cluster.stop(options.settings.shutdown.grace).await;
    output.end(result.as_ref().map_err(Error::to_string));
    result
}
