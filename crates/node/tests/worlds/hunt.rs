//! Many worlds, and the proof that mistakes would be found.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kube_gc_node::mutation::{self, Mutation};

use crate::judge::judge;

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
