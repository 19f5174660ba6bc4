//! `kube-gc demo`: an API server, a small shop and a collector in one process, and
//! scenarios that show what follows from a deletion.
//!
//! | module | content |
//! |---|---|
//! | `fixtures`, `scenarios` | the objects, what happens to them, and the expected result: data |
//! | `environment` | the embedded server, the collector, the kubeconfig |
//! | `user` | a client that acts like kubectl |
//! | `recorder` | records the collector's requests and decisions and matches them |
//! | `runner`, `load` | run the scenarios, or collect many objects; both verify the result |
//! | `report`, `output` | the results as data; as text and as JSON |
//! | `node` | `kube-gc demo --node`: node collection instead, on a container runtime in the process |

mod environment;
mod fixtures;
mod load;
#[cfg(feature = "node")]
pub mod node;
mod output;
mod recorder;
mod report;
mod runner;
mod scenarios;
mod user;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::app::{Error, ErrorKind, block_on_one_runtime, termination};
use crate::config::Settings;
use environment::Environment;
use kube_gc_core::object::PropagationPolicy;
pub use output::Format;
use output::Output;
use recorder::Recorder;
use runner::Runner;

/// A pause in which a person reads a few lines.
const READING_PAUSE: Duration = Duration::from_millis(2500);

/// What the demo does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Collect many objects instead of running the scenarios.
    pub load: Option<LoadOptions>,
    /// What happens afterwards.
    pub afterwards: Afterwards,
    /// The format of the output.
    pub output: Format,
    /// The address of the Kubernetes API.
    pub api_listen: SocketAddr,
    /// The kubeconfig file to write; `None` creates a temporary file.
    pub kubeconfig: Option<PathBuf>,
    /// The settings of the collector.
    pub settings: Settings,
}

/// How many objects to collect, and how.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The number of dependents.
    pub objects: u32,
    /// The policy with which their owner is deleted.
    pub policy: PropagationPolicy,
}

/// What the demo does after its scenarios or its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// Exits.
    Exit,
    /// Keeps running until a signal.
    KeepRunning,
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
    let (recorder, mut steps) = Recorder::new(options.load.is_none());
    let environment = Environment::start(options, &recorder).await?;
    let mut output = Output::new(options.output);
    output.begin(environment.endpoints());
    let running = async {
        match options.load {
            Some(load) => load::run(&environment, &recorder, &mut output, load).await,
            None => run_scenarios(&environment, &recorder, &mut steps, &mut output).await,
        }
        .map_err(|error| Error::new(ErrorKind::Internal, error))
    };
    let finished = tokio::select! {
        biased;
        _ = &mut terminated => None,
        finished = running => Some(finished),
        error = environment.fails() => Some(Err(error)),
    };
    output.clear_progress();
    recorder.stop();
    let result = match finished {
        Some(Ok(())) if options.afterwards == Afterwards::KeepRunning => {
            output.keeps_running(environment.endpoints(), options.load.is_some());
            tokio::select! {
                _ = &mut terminated => Ok(()),
                error = environment.fails() => Err(error),
            }
        }
        Some(finished) => finished,
        None => Ok(()),
    };
    environment.stop(options.settings.shutdown.grace).await;
    match &result {
        Ok(()) => output.end(),
        Err(error) => output.failure(&error.to_string()),
    }
    result
}

async fn run_scenarios(
    environment: &Environment,
    recorder: &Recorder,
    steps: &mut UnboundedReceiver<report::Step>,
    output: &mut Output,
) -> Result<(), String> {
    let mut runner = Runner::new(environment.user(), recorder, steps, environment.collector(), output);
    let tree = runner.set_up().await?;
    runner.output.tree(&tree);
    runner.output.pause(2 * READING_PAUSE).await;
    let scenarios = scenarios::scenarios();
    for (number, scenario) in (1..).zip(&scenarios) {
        runner.output.scenario_begins(number, scenarios.len(), scenario.title, scenario.about);
        runner.output.pause(READING_PAUSE).await;
        let report = runner.run(scenario).await?;
        runner.output.scenario_ends(&report);
        runner.output.pause(READING_PAUSE).await;
    }
    Ok(())
}
