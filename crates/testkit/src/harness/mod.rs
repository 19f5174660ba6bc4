//! Runs scenarios, each of which is compiled once, in several environments.
//!
//! A test binary without libtest's harness lists them as [`Lane`]s. The name of a scenario is its
//! environment, its module and its function: `embedded::conformance::policies::ring`. The command
//! line supports the common options of libtest.
//!
//! A scenario that is in no list is dead code, which the compiler reports.

use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Parser;
use futures::future::LocalBoxFuture;
use tokio::runtime::Builder;

use crate::control_plane::turns;
use crate::environment::{self, Environment, Running};

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    name: &'static str,
    play: fn() -> LocalBoxFuture<'static, Result<()>>,
}

impl Scenario {
    /// A scenario with one thread, which runs in parallel with those of other lanes.
    pub const fn new(name: &'static str, play: fn() -> LocalBoxFuture<'static, Result<()>>) -> Self {
        Self { name, play }
    }
}

/// The scenarios of a module.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// The path of the module, with the name of the crate.
    pub path: &'static str,
    /// The scenarios of the module.
    pub scenarios: &'static [Scenario],
}

/// Registers the scenarios of a module: `async` functions without arguments that return a `Result`.
/// The harness finds them in `SCENARIOS`.
///
/// ```
/// use kube_gc_testkit::scenarios;
///
/// scenarios! {
///     nothing_happens,
/// }
///
/// async fn nothing_happens() -> anyhow::Result<()> {
///     Ok(())
/// }
/// # fn main() { assert_eq!(SCENARIOS.scenarios.len(), 1); }
/// ```
#[macro_export]
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        /// The scenarios of this module.
        pub const SCENARIOS: $crate::harness::Module = $crate::harness::Module {
            path: ::core::module_path!(),
            scenarios: &[$(
                $crate::harness::Scenario::new(::core::stringify!($name), || ::std::boxed::Box::pin($name()))
            ),+],
        };
    };
}

/// Scenarios that share their own control planes, one at a time on each.
#[derive(Clone, Debug)]
pub struct Lane {
    environment: Environment,
    name: &'static str,
    planes: usize,
    nightly: bool,
    modules: Vec<Module>,
}

impl Lane {
    /// The scenarios of these modules, one after another on one control plane.
    pub fn new(environment: Environment, name: &'static str, modules: &[&[Module]]) -> Self {
        Self { environment, name, planes: 1, nightly: false, modules: modules.concat() }
    }

    /// The same on this many control planes in parallel.
    #[must_use]
    pub fn on(self, planes: usize) -> Self {
        Self { planes, ..self }
    }

    /// The same, but only for `make nightly`, and if their names are given.
    #[must_use]
    pub fn nightly(self) -> Self {
        Self { nightly: true, ..self }
    }

    fn trials(&self) -> impl Iterator<Item = Trial> {
        self.modules.iter().flat_map(move |module| {
            let path = module.path.split_once("::").map_or(module.path, |(_, path)| path);
            module.scenarios.iter().map(move |scenario| Trial {
                running: Running {
                    scenario: format!("{}::{path}::{}", self.environment, scenario.name),
                    environment: self.environment,
                    lane: self.name,
                    planes: self.planes,
                },
                scenario: *scenario,
            })
        })
    }
}

/// A scenario in its environment.
#[derive(Clone, Debug)]
struct Trial {
    running: Running,
    scenario: Scenario,
}

/// Runs scenarios.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only scenarios whose names contain one of these
    filters: Vec<String>,
    /// No scenarios whose names contain this; may be repeated
    #[arg(long)]
    skip: Vec<String>,
    /// Only scenarios whose names are equal to a filter or to what is skipped
    #[arg(long)]
    exact: bool,
    /// Only what `make nightly` runs. Without it and without names, only what the gate runs
    #[arg(long)]
    nightly: bool,
    /// Lists the scenarios, and runs none
    #[arg(long)]
    list: bool,
    /// How many scenarios run at the same time [default: one more than there are cores]
    #[arg(long, env = "RUST_TEST_THREADS")]
    test_threads: Option<NonZero<usize>>,
    /// Has no effect: output is always shown
    #[arg(long)]
    nocapture: bool,
    /// Has no effect: output is always shown
    #[arg(long)]
    show_output: bool,
    /// Has no effect
    #[arg(long, short)]
    quiet: bool,
}

impl Arguments {
    fn selects(&self, name: &str, is_nightly: bool) -> bool {
        let is_meant = is_nightly == self.nightly || !self.nightly && !self.filters.is_empty();
        let matches = |text: &String| if self.exact { name == text } else { name.contains(text.as_str()) };
        is_meant
            && (self.filters.is_empty() || self.filters.iter().any(matches))
            && !self.skip.iter().any(matches)
    }

    fn threads(&self) -> usize {
        // Scenarios mostly wait and rarely compute.
        let usual = || available_parallelism().map_or(1, NonZero::get) + 1;
        self.test_threads.map_or_else(usual, NonZero::get)
    }
}

/// The running and the remaining scenarios.
#[derive(Debug)]
struct Schedule {
    lanes: Vec<Waiting>,
    running: usize,
    limit: usize,
}

#[derive(Debug)]
struct Waiting {
    trials: VecDeque<Trial>,
    planes: usize,
    running: usize,
}

impl Schedule {
    /// The trials of each lane with its number of control planes, and the maximum number of
    /// concurrent trials.
    fn new(lanes: Vec<(usize, Vec<Trial>)>, limit: usize) -> Self {
        let waiting =
            |(planes, trials): (usize, Vec<Trial>)| Waiting { trials: trials.into(), planes, running: 0 };
        Self { lanes: lanes.into_iter().map(waiting).collect(), running: 0, limit }
    }

    /// The number of trials that have not ended.
    fn left(&self) -> usize {
        self.running + self.lanes.iter().map(|lane| lane.trials.len()).sum::<usize>()
    }

    /// The next trial that can run now, with its lane.
    fn next(&mut self) -> Option<(usize, Trial)> {
        if self.running == self.limit {
            return None;
        }
        let free = |lane: &&mut Waiting| lane.running < lane.planes && !lane.trials.is_empty();
        let (index, lane) = self.lanes.iter_mut().enumerate().find(|(_, lane)| free(lane))?;
        lane.running += 1;
        self.running += 1;
        lane.trials.pop_front().map(|trial| (index, trial))
    }

    /// Notes that a trial of a lane has ended. Returns whether it was the last one of the lane.
    fn ended(&mut self, lane: usize) -> bool {
        self.running -= 1;
        let Waiting { trials, running, .. } = &mut self.lanes[lane];
        *running -= 1;
        *running == 0 && trials.is_empty()
    }
}

/// The result of a trial.
struct Ended {
    lane: usize,
    name: String,
    outcome: Result<()>,
    took: Duration,
}

/// Runs the selected scenarios and returns libtest's exit code. Scenarios of earlier lanes start
/// first.
pub fn main(lanes: &[Lane]) -> ExitCode {
    let arguments = Arguments::parse();
    let selected: Vec<(usize, Vec<Trial>)> = lanes
        .iter()
        .map(|lane| {
            let chosen =
                lane.trials().filter(|trial| arguments.selects(&trial.running.scenario, lane.nightly));
            (lane.planes, chosen.collect())
        })
        .collect();
    if arguments.list {
        let mut count = 0;
        for trial in selected.iter().flat_map(|(_, trials)| trials) {
            println!("{}: test", trial.running.scenario);
            count += 1;
        }
        println!("\n{count} tests, 0 benchmarks");
        return ExitCode::SUCCESS;
    }
    run(lanes, Schedule::new(selected, arguments.threads()))
}

fn run(lanes: &[Lane], mut schedule: Schedule) -> ExitCode {
    let begun = Instant::now();
    let all: usize = lanes.iter().map(|lane| lane.trials().count()).sum();
    let count = schedule.left();
    println!("\nrunning {count} tests");
    let (sender, endings) = mpsc::channel();
    let mut failed = Vec::new();
    while schedule.left() > 0 {
        while let Some((lane, trial)) = schedule.next() {
            start(lane, trial, &sender);
        }
        let Ok(Ended { lane, name, outcome, took }) = endings.recv() else { break };
        if schedule.ended(lane) {
            let Lane { environment, name, .. } = lanes[lane];
            // Stopping takes a moment, which other scenarios need not wait for.
            thread::spawn(move || turns::end(environment, name));
        }
        let seconds = took.as_secs_f64();
        match outcome {
            Ok(()) => println!("test {name} ... ok ({seconds:.1} s)"),
            Err(error) => {
                println!("test {name} ... FAILED ({seconds:.1} s): {error:#}");
                failed.push((name, error));
            }
        }
    }
    // Includes the backtraces, if there are any.
    for (name, error) in &failed {
        println!("\n---- {name} ----\n{error:?}");
    }
    if !failed.is_empty() {
        println!("\nfailures:");
        for (name, _) in &failed {
            println!("    {name}");
        }
    }
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        count - failed.len(),
        failed.len(),
        all - count,
        begun.elapsed().as_secs_f64()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

/// Runs a trial on its own thread, whose name appears in panic messages.
fn start(lane: usize, trial: Trial, sender: &Sender<Ended>) {
    let name = trial.running.scenario.clone();
    let report = sender.clone();
    let begun = Instant::now();
    let thread = thread::Builder::new().name(name.clone()).spawn(move || {
        let name = trial.running.scenario.clone();
        environment::enter(trial.running);
        let outcome = catch_unwind(AssertUnwindSafe(|| play(&trial.scenario)));
        let outcome = outcome.unwrap_or_else(|panic| Err(anyhow!("panicked: {}", message(panic.as_ref()))));
        let _ = report.send(Ended { lane, name, outcome, took: begun.elapsed() });
    });
    if let Err(error) = thread {
        let outcome = Err(anyhow!("cannot start a thread: {error}"));
        let _ = sender.send(Ended { lane, name, outcome, took: begun.elapsed() });
    }
}

fn play(scenario: &Scenario) -> Result<()> {
    Builder::new_current_thread().enable_all().build()?.block_on((scenario.play)())
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
