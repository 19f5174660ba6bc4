//! Runs many seeds on several threads and reports failures.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kube_gc_observe::telemetry::Exporter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::births;
use super::options::{Options, Steps};
use super::run::{Failure, Passed, Spec, record_fatal_error, run};
use super::shrink::shrink;

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
    hunt(std::iter::once(fresh).chain(0..options.fixed), None, options) && is_repeatable() && are_kept()
}

/// Checks that a seed determines a run down to the last byte and time of every message, and that
/// another seed gives another run.
fn is_repeatable() -> bool {
    let exporter = exporter();
    let hash = |seed| {
        let spec = Spec { seed, steps: Some(100), without: BTreeSet::new(), verbose: false };
        attempt(&spec, &exporter).map(|passed| passed.hash)
    };
    match (hash(0), hash(0), hash(1)) {
        (Ok(first), Ok(again), Ok(other)) if first == again && first != other => true,
        (first, again, other) => {
            println!("NOT REPEATABLE: seed 0 gave {first:?}, then {again:?}; seed 1 gave {other:?}");
            false
        }
    }
}

/// Checks that no dependent is lost whose owner is stored after it.
fn are_kept() -> bool {
    let began = Instant::now();
    match births::none_is_lost(&exporter()) {
        Ok(()) => println!("simulation: no dependent lost in 10,000 births, {:?}", began.elapsed()),
        Err(wrong) => {
            println!("FAILED: dependents of objects in admission: {wrong}");
            return false;
        }
    }
    true
}

/// Runs fresh seeds for this many seconds.
pub fn soak(seconds: u64, options: &Options) -> bool {
    let first = options.from.unwrap_or_else(fresh_seed);
    println!("simulation: fresh seeds from {first} on, for {seconds} s");
    hunt(first.., Some(Duration::from_secs(seconds)), options)
}

/// Runs one seed twice with its trace printed. The second run checks that the result is the same.
pub fn replay(seed: u64, options: &Options) -> bool {
    if let Some(filter) = &options.log {
        let lines = tracing_subscriber::fmt::layer().without_time().with_ansi(false);
        let lines = lines.with_writer(std::io::stdout);
        tracing_subscriber::registry().with(filter.clone()).with(lines).init();
    }
    let without = options.without.clone().unwrap_or_default();
    let spec = Spec { seed, steps: options.steps, without: without.0, verbose: !options.quiet };
    let began = Instant::now();
    let exporter = exporter();
    let result = attempt(&spec, &exporter);
    println!("simulation: {:?}", began.elapsed());
    let again = attempt(&Spec { verbose: false, ..spec.clone() }, &exporter);
    match (&result, again) {
        (Ok(passed), Ok(again)) if *passed != again => {
            println!("NOT REPEATABLE: {passed:?}, then {again:?}");
            return false;
        }
        (Ok(passed), Ok(_)) => println!("simulation: {passed:?}, and the same again"),
        (Err(failure), Err(again)) if failure.trace != again.trace => {
            println!("NOT REPEATABLE: then {again}");
        }
        (Ok(_), Err(failure)) => println!("NOT REPEATABLE: then {failure}"),
        (Err(_), Ok(_)) => println!("NOT REPEATABLE: then all was well"),
        (Err(_), Err(_)) => {}
    }
    match result {
        Ok(_) => println!("1 passed, 0 failed"),
        Err(failure) => {
            println!("FAILED: {failure}\n0 passed, 1 failed");
            return false;
        }
    }
    true
}

/// Runs seeds on all cores until there are none left or the time is over.
fn hunt(seeds: impl Iterator<Item = u64> + Send, time: Option<Duration>, options: &Options) -> bool {
    let began = Instant::now();
    let seeds = Mutex::new(seeds);
    let (over, totals) = (AtomicBool::new(false), Totals::default());
    thread::scope(|scope| {
        for _ in 0..options.threads() {
            scope.spawn(|| {
                let exporter = exporter();
                while !over.load(Ordering::Relaxed) && time.is_none_or(|time| began.elapsed() < time) {
                    let seed = seeds.lock().ok().and_then(|mut seeds| seeds.next());
                    let Some(seed) = seed else { break };
                    let spec = Spec { seed, steps: options.steps, without: BTreeSet::new(), verbose: false };
                    match attempt(&spec, &exporter) {
                        Ok(passed) => totals.passed(&passed, began),
                        Err(failure) => {
                            totals.failed.fetch_add(1, Ordering::Relaxed);
                            report(&spec, failure, &exporter);
                        }
                    }
                    // A few failures are enough to work on.
                    if totals.failed.load(Ordering::Relaxed) >= 5 {
                        over.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    totals.say(began);
    let (passed, failed) = (totals.passed.load(Ordering::Relaxed), totals.failed.load(Ordering::Relaxed));
    println!("{passed} passed, {failed} failed");
    failed == 0
}

/// Totals over all threads.
#[derive(Default)]
struct Totals {
    passed: AtomicU64,
    failed: AtomicU64,
    steps: AtomicU64,
    requests: AtomicU64,
    said: AtomicU64,
}

impl Totals {
    fn passed(&self, passed: &Passed, began: Instant) {
        self.passed.fetch_add(1, Ordering::Relaxed);
        self.steps.fetch_add(passed.steps as u64, Ordering::Relaxed);
        self.requests.fetch_add(passed.requests, Ordering::Relaxed);
        // Progress is printed every ten seconds.
        let due = began.elapsed().as_secs() / 10;
        if self.said.fetch_max(due, Ordering::Relaxed) < due {
            self.say(began);
        }
    }

    fn say(&self, began: Instant) {
        let seconds = began.elapsed().as_secs_f64().max(0.001);
        let steps = self.steps.load(Ordering::Relaxed);
        println!(
            "simulation: {:.0} s, {} runs, {steps} steps ({:.0} per second), {} requests",
            seconds,
            self.passed.load(Ordering::Relaxed),
            steps as f64 / seconds,
            self.requests.load(Ordering::Relaxed),
        );
    }
}

/// Runs a seed. A panic of the simulation itself is a failure, too.
pub fn attempt(spec: &Spec, exporter: &Exporter) -> Result<Passed, Failure> {
    catch_unwind(AssertUnwindSafe(|| run(spec, exporter))).unwrap_or_else(|_| {
        let what = super::run::take_fatal_error().unwrap_or_else(|| "panic".to_owned());
        Err(Failure { what, step: spec.steps.unwrap_or_default(), trace: Vec::new() })
    })
}

/// Reports a failure: what was wrong, the smallest run that shows it, and the command that
/// repeats it.
fn report(spec: &Spec, failure: Failure, exporter: &Exporter) {
    let seed = spec.seed;
    println!("\nseed {seed} FAILED at step {}: {failure}", failure.step);
    let (small, failure) = shrink(spec, failure, exporter);
    let from = failure.trace.len().saturating_sub(SHOWN);
    println!("--- the last of what happened ---");
    for line in failure.trace.iter().skip(from) {
        println!("{line}");
    }
    println!("--- {failure}");
    let steps = small.steps.map(|steps| format!(" --steps {steps}")).unwrap_or_default();
    let without = Steps(small.without);
    let without = if without.0.is_empty() { String::new() } else { format!(" --without {without}") };
    println!(
        "seed {seed}: to see it again:\n  cargo test --test simulation -- --seed {seed}{steps}{without}\n"
    );
}

/// An exporter that the collector needs. The metrics are not recorded anywhere.
pub fn exporter() -> Exporter {
    kube_gc_controller::actors::on_fatal(record_fatal_error);
    match Exporter::local() {
        Ok((_, exporter)) => exporter,
        Err(error) => panic!("no exporter: {error}"),
    }
}

fn fresh_seed() -> u64 {
    RandomState::new().hash_one(0) >> 32
}
