//! Checks that the simulation finds mistakes: each is made on purpose and must be caught within a
//! bounded number of seeds.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use kube_gc_core::mutation::{self, Mutation};
use kube_gc_observe::telemetry::Exporter;

use super::hunt::{attempt, exporter};
use super::options::Options;
use super::plan::{Action, Plan};
use super::run::{Failure, Spec};

/// How a mistake was caught.
struct Caught {
    seed: u64,
    /// The number of seeds that it took.
    after: u64,
    failure: Failure,
}

/// Makes each of the mistakes, prints how it was caught, and returns whether all were.
pub fn prove(options: &Options) -> bool {
    let chosen: Vec<Mutation> = match options.mutation {
        Some(mutation) => vec![mutation],
        None => Mutation::ALL.to_vec(),
    };
    let first = options.from.unwrap_or_default();
    println!(
        "simulation: {} mistakes, each with at most {} seeds from {first} on",
        chosen.len(),
        options.seeds
    );
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..options.threads() {
            scope.spawn(|| {
                let exporter = exporter();
                while let Some(&mutation) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let caught = catch(mutation, first, options, &exporter);
                    say(mutation, caught.as_ref(), options.seeds);
                    if caught.is_none()
                        && let Ok(mut missed) = missed.lock()
                    {
                        missed.push(mutation);
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap_or_default();
    println!("{} caught, {} missed{}", chosen.len() - missed.len(), missed.len(), names(&missed));
    missed.is_empty()
}

/// Whether a run with this plan can show a mistake. Some mistakes only matter after a rare action.
/// The other runs would take most of the time.
fn can_show(mutation: Mutation, plan: &Plan) -> bool {
    match mutation {
        Mutation::UnbornIsAbsent => plan.includes(Action::Birth),
        Mutation::BelieveAnswersToWrites => plan.includes(Action::DenyByAdmission),
        Mutation::BelieveCodesOfPatches => plan.includes(Action::BringBack),
        Mutation::PassOverUndiscovered => plan.includes(Action::GroupAway),
        _ => true,
    }
}

/// Runs seeds that can show a mistake until one fails that passes without it.
fn catch(mutation: Mutation, first: u64, options: &Options, exporter: &Exporter) -> Option<Caught> {
    let with = |mutation, seed| {
        mutation::choose(mutation);
        let spec = Spec { seed, steps: options.steps, without: BTreeSet::new(), verbose: false };
        let result = attempt(&spec, exporter);
        mutation::choose(None);
        result
    };
    let seeds = (first..).filter(|seed| can_show(mutation, &Plan::new(*seed, options.steps)));
    (0..options.seeds).zip(seeds).find_map(|(after, seed)| {
        let failure = with(Some(mutation), seed).err()?;
        with(None, seed).is_ok().then_some(Caught { seed, after: after + 1, failure })
    })
}

fn say(mutation: Mutation, caught: Option<&Caught>, seeds: u64) {
    match caught {
        Some(Caught { seed, after, failure }) => {
            let plural = if *after == 1 { "" } else { "s" };
            println!("caught after {after:>4} seed{plural:1} {mutation:?} (seed {seed}): {failure}");
        }
        None => println!("MISSED in {seeds} seeds: {mutation:?}: {}", mutation.describe()),
    }
}

fn names(mutations: &[Mutation]) -> String {
    let names: Vec<String> = mutations.iter().map(|mutation| format!("{mutation:?}")).collect();
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}
