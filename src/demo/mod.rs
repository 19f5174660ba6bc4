//! `kube-gc demo`: an API server, a small shop and a collector in one process, and
//! scenarios that show what follows from a deletion.
//!
//! | module | content |
//! |---|---|
//! | `shop` | the objects, what happens to them, and the expected result: data |
//! | `cluster` | the embedded server and the collector; a user who acts like kubectl; a recorder of the collector's requests and decisions |
//! | `runner`, `load` | run the scenarios, or collect many objects; both verify the result |
//! | `output` | the results, as text and as JSON |
//! | `node` | `kube-gc demo --node`: node collection instead, on a container runtime in the process |

mod cluster;
mod load;
#[cfg(feature = "node")]
pub mod node;
mod output;
mod runner;
mod shop;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::app::{Error, ErrorKind, block_on_one_runtime, termination};
use crate::config::Settings;
use cluster::{Cluster, Recorder};
use kube_gc_core::object::PropagationPolicy;
pub use output::Format;
use output::Output;
use runner::Runner;

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
    block_on_one_runtime(demo(options))?
}

async fn demo(options: &Options) -> Result<(), Error> {
    // Before anything that takes long, so that no signal is missed.
    let terminated = termination()?;
    tokio::pin!(terminated);
    let recorder = Recorder::new(options.load.is_none());
    let cluster =
        Cluster::start(options.api_listen, options.kubeconfig.as_deref(), &options.settings, &recorder)
            .await?;
    let mut output = Output::new(options.output);
    output.text(|| output::begin(&cluster.endpoints));
    output.event("begin", &cluster.endpoints);
    let running = async {
        let result = match options.load {
            Some((objects, policy)) => load::run(&cluster, &recorder, &mut output, objects, policy).await,
            None => Runner::new(&cluster, &recorder, &mut output).run().await,
        };
        result.map_err(|error| Error::new(ErrorKind::Internal, error))
    };
    let finished = tokio::select! {
        biased;
        _ = &mut terminated => None,
        finished = running => Some(finished),
        error = cluster.fails() => Some(Err(error)),
    };
    output.clear_progress();
    recorder.stop();
    let result = match finished {
        Some(Ok(())) if !options.once => {
            output.text(|| output::keeps_running(&cluster.endpoints, options.load.is_some()));
            output.event("stay", &cluster.endpoints);
            tokio::select! {
                _ = &mut terminated => Ok(()),
                error = cluster.fails() => Err(error),
            }
        }
        Some(finished) => finished,
        None => Ok(()),
    };
    cluster.stop(options.settings.shutdown.grace).await;
    output.end(result.as_ref().map_err(Error::to_string));
    result
}
