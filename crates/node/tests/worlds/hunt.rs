//! Many worlds, and the proof that mistakes would be found.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kube_gc_node::Rule;
use kube_gc_node::mutation::{self, Mutation};

use crate::judge::{judge, rules_that_decide};

/// After so many worlds, a mistake counts as not found.
const WORLDS_PER_MUTATION: u64 = 50_000;
/// How many failures are shown.
const SHOWN: u64 = 5;

/// Judges one world, and shows it.
pub fn replay(seed: u64) -> bool {
    let wrong = judge(seed);
    println!("world {seed}: {}", if wrong.is_empty() { "all is well" } else { "" });
    for line in &wrong {
        println!("  {line}");
    }
    wrong.is_empty()
}

/// Judges so many worlds, in as many threads as there are cores.
pub fn check(worlds: u64) -> bool {
    let begin = Instant::now();
    let (next, failures) = (AtomicU64::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= worlds || failures.load(Ordering::Relaxed) >= SHOWN {
                        return;
                    }
                    let wrong = judge(seed);
                    if !wrong.is_empty() {
                        failures.fetch_add(1, Ordering::Relaxed);
                        println!("world {seed} (replay it with --seed {seed}):\n  {}", wrong.join("\n  "));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner();
    println!("{worlds} worlds, {failures} failures, {:.1} s", begin.elapsed().as_secs_f64());
    failures == 0
}

/// Whether the worlds are so varied that each rule decides about something in one of them. C2, C7
/// and I3 say how, and decide about nothing.
pub fn prove_variety() -> bool {
    let mut missing: BTreeSet<Rule> = Rule::ALL.iter().copied().collect();
    for rule in [Rule::C2, Rule::C7, Rule::I3] {
        missing.remove(&rule);
    }
    let mut seed = 0;
    while !missing.is_empty() && seed < WORLDS_PER_MUTATION {
        for rule in rules_that_decide(seed) {
            missing.remove(&rule);
        }
        seed += 1;
    }
    println!("each rule decides in one of the first {seed} worlds, except for {missing:?}");
    missing.is_empty()
}

/// Makes each mistake, until a world shows it by a broken invariant.
pub fn prove_mutations() -> bool {
    let mut missed = 0;
    for &mistake in Mutation::ALL {
        mutation::choose(Some(mistake));
        let first = |seed| Some((seed, judge(seed).into_iter().next()?));
        let found = (0..WORLDS_PER_MUTATION).find_map(first);
        mutation::choose(None);
        match found {
            Some((seed, wrong)) => {
                let cut: String = wrong.chars().take(100).collect();
                println!("{mistake:?}: found in world {seed}: {cut}");
            }
            None => {
                missed += 1;
                println!("{mistake:?}: NOT FOUND. {}", mistake.describe());
            }
        }
    }
    println!("{} mistakes, {missed} not found", Mutation::ALL.len());
    missed == 0
}
