//! One run, from a seed to its result.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use kube_gc::internals::telemetry::Exporter;
use tokio::task::LocalSet;

use super::actions::{After, act};
use super::collector::Collector;
use super::plan::Plan;
use super::random::Random;
use super::rest;
use super::trace::Trace;
use super::world::World;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Decides everything.
    pub seed: u64,
    /// How many steps, if not as many as the seed says.
    pub steps: Option<usize>,
    /// The steps that are left out.
    pub without: BTreeSet<usize>,
    /// Whether each line of the trace is printed.
    pub aloud: bool,
}

/// A run in which nothing was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Steps.
    pub steps: usize,
    /// Requests of the collector.
    pub requests: u64,
    /// The hash of everything that happened.
    pub hash: u64,
}

/// A run in which something was.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What.
    pub what: String,
    /// In or after which step.
    pub step: usize,
    /// What happened last.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

thread_local! {
    /// The first panic on this thread, or the last words of a controller.
    static LAST_WORDS: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes that something on this thread cannot go on.
pub fn note_last_words(words: &str) {
    LAST_WORDS.with_borrow_mut(|heard| {
        heard.get_or_insert_with(|| words.to_owned());
    });
}

/// What was noted since the last time.
pub fn take_last_words() -> Option<String> {
    LAST_WORDS.take()
}

/// Runs it.
pub fn run(spec: &Spec, exporter: &Exporter) -> Result<Passed, Failure> {
    take_last_words();
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
    match (result, take_last_words()) {
        (Ok(_), Some(words)) => Err(failed(words)),
        (result, _) => result,
    }
}

/// A run under way.
struct Course<'a> {
    spec: &'a Spec,
    exporter: &'a Exporter,
    world: World,
    next: usize,
}

/// Why one collector's life is over.
enum End {
    /// The run is.
    Rest,
    /// It was killed.
    Crash,
}

impl<'a> Course<'a> {
    async fn new(spec: &'a Spec, exporter: &'a Exporter) -> Self {
        let plan = Plan::new(spec.seed, spec.steps);
        let trace = Trace::new(spec.aloud);
        trace.note(format_args!("seed {}: {plan:?}", spec.seed));
        let mut world = World::new(spec.seed, plan, trace);
        let server = world.server.clone();
        tokio::spawn(async move { server.run().await });
        world.begin().await;
        Self { spec, exporter, world, next: 0 }
    }

    /// One life of a collector after the other.
    async fn run(&mut self) -> Result<(), String> {
        loop {
            let set = LocalSet::new();
            let end = set.run_until(self.live()).await?;
            // A crash: all of its actors are gone at once, and what they had under way.
            self.world.network.next_life();
            drop(set);
            match end {
                End::Rest => return Ok(()),
                End::Crash => self.world.judge.restarted(),
            }
        }
    }

    async fn live(&mut self) -> Result<End, String> {
        let collector = Collector::start(&self.world, self.spec.seed, self.exporter);
        let collector = collector.map_err(|error| error.to_string())?;
        self.world.network.trace.note(format_args!("the collector starts"));
        while self.next < self.world.plan.steps {
            let step = self.next;
            self.next += 1;
            if self.spec.without.contains(&step) {
                continue;
            }
            let after = self.step(step).await;
            self.check()?;
            if after == After::Crash {
                self.world.network.trace.note(format_args!("the collector is killed"));
                return Ok(End::Crash);
            }
        }
        rest::come_to_rest(&mut self.world, &collector).await?;
        self.check()?;
        Ok(End::Rest)
    }

    async fn step(&mut self, step: usize) -> After {
        let number = step as u64;
        let world = &mut self.world;
        let mut random = Random::new(self.spec.seed).split("step", number);
        let faults = Random::new(self.spec.seed).split("faults", number);
        world.network.begin_step(faults, world.plan.rates);
        let action = world.plan.action(&mut random);
        world.network.trace.note(format_args!("step {step}: {action:?}"));
        let after = act(action, world, &mut random).await;
        // Between two steps: nothing, a part of an instant, or some time.
        match random.weighted(&[30, 20, 50]) {
            0 => {}
            1 => {
                for _ in 0..random.below(40) {
                    tokio::task::yield_now().await;
                }
            }
            _ => tokio::time::sleep(random.millis(1, 30)).await,
        }
        after
    }

    /// Whether anything has gone wrong so far.
    fn check(&self) -> Result<(), String> {
        self.world.judge.look();
        if let Some(words) = take_last_words() {
            return Err(words);
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
        let network = &self.world.network;
        Passed { steps: self.next, requests: network.requests(), hash: network.trace.hash() }
    }

    fn failed(&self, what: String) -> Failure {
        Failure { what, step: self.next, trace: self.world.network.trace.last() }
    }
}

impl World {
    /// What is there before the first step.
    async fn begin(&mut self) {
        for name in self.namespaces.clone() {
            let namespace =
                serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            self.create(&super::types::NAMESPACES, None, &namespace).await;
        }
        for of in self.types.clone().into_iter().filter(|of| of.custom) {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            self.request(http::Method::POST, path, "application/json", &of.definition()).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.judge.look();
    }
}
