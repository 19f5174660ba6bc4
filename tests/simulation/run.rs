//! One run, from a seed to its result.

use std::cell::RefCell;
use std::collections::BTreeSet;

use kube_gc_observe::telemetry::Exporter;
use tokio::task::LocalSet;

use super::collector::Collector;
use super::plan::Plan;
use super::random::Random;
use super::rest;
use super::sieve::Patterns;
use super::trace::Trace;
use super::world::World;

/// The specification of a run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The seed, which determines everything.
    pub seed: u64,
    /// The steps to carry out; `None` means all.
    pub only: Option<BTreeSet<usize>>,
    /// Whether the trace is printed.
    pub verbose: bool,
}

impl Spec {
    /// A whole run.
    pub const fn of(seed: u64) -> Self {
        Self { seed, only: None, verbose: false }
    }
}

/// The result of a run without a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The number of steps.
    pub steps: usize,
    /// The number of requests of the collector.
    pub requests: u64,
    /// What the collector was exposed to.
    pub patterns: Patterns,
    /// The hash of the trace.
    pub hash: u64,
}

/// The result of a run with a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was wrong.
    pub what: String,
    /// The step in or after which it was noticed.
    pub step: usize,
    /// The last lines of the trace.
    pub trace: Vec<String>,
}

thread_local! {
    /// The first panic on this thread, or the fatal error of an actor.
    static FATAL_ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records that the run cannot continue on this thread.
pub fn record_fatal_error(message: &str) {
    FATAL_ERROR.with_borrow_mut(|heard| {
        heard.get_or_insert_with(|| message.to_owned());
    });
}

/// Takes what was recorded since the last call.
pub fn take_fatal_error() -> Option<String> {
    FATAL_ERROR.take()
}

/// Executes a run.
pub fn run(spec: &Spec, exporter: &Exporter) -> Result<Passed, Failure> {
    take_fatal_error();
    let failed = |what: String| Failure { what, step: 0, trace: Vec::new() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| failed(format!("no runtime: {error}")))?;
    let result = runtime.block_on(async {
        let mut course = Course::new(spec, exporter).await;
        match course.run().await {
            Ok(()) => Ok(course.passed()),
            Err(what) => Err(course.failed(what)),
        }
    });
    drop(runtime);
    match (result, take_fatal_error()) {
        (Ok(_), Some(message)) => Err(failed(message)),
        (result, _) => result,
    }
}

/// A run in progress.
struct Course<'a> {
    spec: &'a Spec,
    exporter: &'a Exporter,
    world: World,
    next: usize,
}

impl<'a> Course<'a> {
    async fn new(spec: &'a Spec, exporter: &'a Exporter) -> Self {
        let plan = Plan::new(spec.seed);
        let trace = Trace::new(spec.verbose);
        trace.note(format_args!("seed {}: {plan:?}", spec.seed));
        let world = World::start(spec.seed, plan, trace).await;
        Self { spec, exporter, world, next: 0 }
    }

    /// Runs one collector after the other until the run is over.
    async fn run(&mut self) -> Result<(), String> {
        loop {
            let set = LocalSet::new();
            set.run_until(self.live()).await?;
            // A crash: all actors disappear at once, with everything in flight.
            self.world.network.next_life();
            drop(set);
            if !std::mem::take(&mut self.world.is_killed) {
                return Ok(());
            }
            self.world.judge.restarted();
        }
    }

    /// Runs a collector until it is killed or the run is over.
    async fn live(&mut self) -> Result<(), String> {
        let collector = Collector::start(&self.world, self.spec.seed, self.exporter);
        let collector = collector.map_err(|error| error.to_string())?;
        self.world.network.trace.note(format_args!("the collector starts"));
        for group in self.world.network.away() {
            self.world.judge.away(&group);
        }
        while self.next < self.world.plan.steps {
            let step = self.next;
            self.next += 1;
            if self.spec.only.as_ref().is_some_and(|only| !only.contains(&step)) {
                continue;
            }
            self.step(step).await;
            self.check()?;
            if self.world.is_killed {
                self.world.network.trace.note(format_args!("the collector is killed"));
                return Ok(());
            }
        }
        rest::come_to_rest(&mut self.world, &collector).await?;
        self.check()
    }

    async fn step(&mut self, step: usize) {
        let number = step as u64;
        let world = &mut self.world;
        let mut random = Random::new(self.spec.seed).split("step", number);
        let faults = Random::new(self.spec.seed).split("faults", number);
        world.network.begin_step(faults, world.plan.rates);
        let (action, act) = world.plan.action(&mut random);
        world.network.trace.note(format_args!("step {step}: {action:?}"));
        act(world, &mut random).await;
        // Between two steps there is no time, a part of an instant, or some time.
        match random.weighted(&[30, 20, 50]) {
            0 => {}
            1 => {
                for _ in 0..random.below(40) {
                    tokio::task::yield_now().await;
                }
            }
            _ => tokio::time::sleep(random.millis(1, 30)).await,
        }
    }

    /// Fails if there was a violation so far.
    fn check(&self) -> Result<(), String> {
        self.world.judge.look();
        if let Some(message) = take_fatal_error() {
            return Err(message);
        }
        if let Some(wrong) = self.world.lease.wrong() {
            return Err(wrong);
        }
        if let Some(line) = self.world.network.runaway() {
            return Err(format!("requests without end, at last: {line}"));
        }
        self.world.judge.violation().map_or(Ok(()), |violation| Err(violation.to_string()))
    }

    fn passed(&self) -> Passed {
        let (network, patterns) = (&self.world.network, self.world.judge.patterns());
        Passed { steps: self.next, requests: network.requests(), patterns, hash: network.trace.hash() }
    }

    fn failed(&self, what: String) -> Failure {
        Failure { what, step: self.next, trace: self.world.network.trace.last() }
    }
}
