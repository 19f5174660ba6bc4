//! Runs many seeds on several threads and reports failures.

use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kube_gc_observe::telemetry::Exporter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::options::{FIXED, Options, threads};
use super::run::{Failure, Passed, Spec, record_fatal_error, run, take_fatal_error};
use super::shrink::shrink;
use super::sieve::Patterns;

/// How many lines of the trace of a failed run are printed.
const SHOWN: usize = 80;

/// Records panics, so that a panic anywhere in a run is a failure of that run.
pub fn listen() {
    std::panic::set_hook(Box::new(|panic| {
        record_fatal_error(&format!("panic: {panic}").replace('\n', " "));
    }));
}

/// Runs the fixed seeds and a fresh one.
pub fn check(options: &Options) -> bool {
    let fresh = options.from.unwrap_or_else(fresh_seed);
    println!("simulation: {} fixed seeds and the fresh seed {fresh}", options.fixed);
    // The fresh seed comes first, so that its number is printed in any case.
    let seeds = std::iter::once(fresh).chain(0..options.fixed);
    hunt(seeds, None, options.fixed >= FIXED) && is_repeatable()
}

/// Checks that a seed determines a run down to the last byte and time of every message, and that
/// another seed gives another run.
fn is_repeatable() -> bool {
    let exporter = exporter();
    let hash = |seed| {
        let spec = Spec { only: Some((0..100).collect()), ..Spec::of(seed) };
        attempt(&spec, &exporter).map(|passed| passed.hash)
    };
    let (first, again, other) = (hash(0), hash(0), hash(1));
    let good = first.is_ok() && first == again && first != other;
    if !good {
        println!("NOT REPEATABLE: seed 0 gave {first:?}, then {again:?}; seed 1 gave {other:?}");
    }
    good
}

/// Runs fresh seeds for this many seconds.
pub fn soak(seconds: u64, options: &Options) -> bool {
    let first = options.from.unwrap_or_else(fresh_seed);
    println!("simulation: fresh seeds from {first} on, for {seconds} s");
    hunt(first.., Some(Duration::from_secs(seconds)), seconds >= 60)
}

/// Runs one seed twice with its trace printed. The second run checks that the result is the same.
pub fn replay(seed: u64, options: &Options) -> bool {
    if let Some(filter) = &options.log {
        let lines = tracing_subscriber::fmt::layer().without_time().with_ansi(false);
        let lines = lines.with_writer(std::io::stdout);
        tracing_subscriber::registry().with(filter.clone()).with(lines).init();
    }
    let only = options.only.clone().map(|only| only.into_iter().collect());
    let spec = Spec { only, verbose: true, ..Spec::of(seed) };
    let began = Instant::now();
    let exporter = exporter();
    let result = attempt(&spec, &exporter);
    println!("simulation: {:?}", began.elapsed());
    let again = attempt(&Spec { verbose: false, ..spec }, &exporter);
    if result != again {
        println!("NOT REPEATABLE: {result:?}, then {again:?}");
        return false;
    }
    match &result {
        Ok(passed) => println!("simulation: {passed:?}, and the same again\n1 passed, 0 failed"),
        Err(Failure { what, .. }) => println!("FAILED: {what}\n0 passed, 1 failed"),
    }
    result.is_ok()
}

/// The results of all threads so far.
#[derive(Default)]
struct Totals {
    passed: usize,
    failed: usize,
    steps: usize,
    requests: u64,
    patterns: Patterns,
    /// How many tens of seconds had passed at the last report.
    said: u64,
}

impl Totals {
    fn say(&self, began: Instant) {
        let Self { passed, steps, requests, patterns, .. } = self;
        let seconds = began.elapsed().as_secs_f64().max(0.001);
        let rate = *steps as f64 / seconds;
        println!(
            "simulation: {seconds:.0} s, {passed} runs, {steps} steps ({rate:.0} per second), {requests} requests, {patterns}"
        );
    }
}

/// Runs seeds on all cores until there are none left or the time is over. `needs_all`: it fails if a pattern
/// of failures did not occur.
fn hunt(seeds: impl Iterator<Item = u64> + Send, time: Option<Duration>, needs_all: bool) -> bool {
    let began = Instant::now();
    let state = Mutex::new((seeds, Totals::default()));
    let with = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let (seeds, totals) = &mut *with();
        // A few failures are enough to work on.
        let goes_on = totals.failed < 5 && time.is_none_or(|time| began.elapsed() < time);
        seeds.next().filter(|_| goes_on)
    };
    thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                let exporter = exporter();
                while let Some(seed) = next() {
                    let spec = Spec::of(seed);
                    let passed = match attempt(&spec, &exporter) {
                        Ok(passed) => passed,
                        Err(failure) => {
                            with().1.failed += 1;
                            report(&spec, failure, &exporter);
                            continue;
                        }
                    };
                    let (_, totals) = &mut *with();
                    totals.passed += 1;
                    totals.steps += passed.steps;
                    totals.requests += passed.requests;
                    totals.patterns += passed.patterns;
                    let due = began.elapsed().as_secs() / 10;
                    if totals.said < due {
                        totals.said = due;
                        totals.say(began);
                    }
                }
            });
        }
    });
    let (_, totals) = &*with();
    totals.say(began);
    println!("{} passed, {} failed", totals.passed, totals.failed);
    let lacks_one = needs_all && totals.patterns.lack_one();
    if lacks_one {
        println!("FAILED: a pattern in which controllers fail did not occur: {}", totals.patterns);
    }
    totals.failed == 0 && !lacks_one
}

/// Runs a seed. A panic of the simulation itself is a failure, too.
pub fn attempt(spec: &Spec, exporter: &Exporter) -> Result<Passed, Failure> {
    catch_unwind(AssertUnwindSafe(|| run(spec, exporter))).unwrap_or_else(|_| {
        let what = take_fatal_error().unwrap_or_else(|| "panic".to_owned());
        Err(Failure { what, step: 0, trace: Vec::new() })
    })
}

/// Reports a failure: what was wrong, the smallest run that shows it, and the command that
/// repeats it.
fn report(spec: &Spec, failure: Failure, exporter: &Exporter) {
    let seed = spec.seed;
    println!("\nseed {seed} FAILED at step {}: {}", failure.step, failure.what);
    let (small, failure) = shrink(spec, failure, exporter);
    let from = failure.trace.len().saturating_sub(SHOWN);
    println!("--- the last of what happened ---");
    for line in failure.trace.iter().skip(from) {
        println!("{line}");
    }
    println!("--- {}", failure.what);
    let steps: Vec<String> = small.only.iter().flatten().map(usize::to_string).collect();
    let only = if steps.is_empty() { String::new() } else { format!(" --only {}", steps.join(",")) };
    println!("seed {seed}: to see it again:\n  cargo test --test simulation -- --seed {seed}{only}\n");
}

/// An exporter that the collector needs. The metrics are not recorded anywhere.
pub fn exporter() -> Exporter {
    kube_gc_controller::actors::on_fatal(record_fatal_error);
    Exporter::local().1
}

fn fresh_seed() -> u64 {
    RandomState::new().hash_one(0) >> 32
}
