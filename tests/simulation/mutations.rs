//! Checks that the simulation finds mistakes: each is made on purpose and must be caught within a
//! bounded number of seeds.

use std::sync::Mutex;
use std::thread;

use kube_gc_core::mutation::{self, Mutation};
use kube_gc_observe::telemetry::Exporter;

use super::actions::Action;
use super::hunt::{attempt, exporter};
use super::options::{Options, threads};
use super::plan::Plan;
use super::run::Spec;

/// Makes each of the mistakes, prints how it was caught, and returns whether all were.
pub fn prove(options: &Options) -> bool {
    let chosen: Vec<Mutation> = match options.mutation {
        Some(mutation) => vec![mutation],
        None => Mutation::ALL.to_vec(),
    };
    let (all, seeds) = (chosen.len(), options.seeds);
    println!("simulation: {all} mistakes, each with at most {seeds} seeds");
    let (left, missed) = (Mutex::new(chosen.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                let exporter = exporter();
                while let Some(mutation) = left.lock().ok().and_then(|mut left| left.next()) {
                    if let Some(how) = catch(mutation, seeds, &exporter) {
                        println!("caught {mutation:?} {how}");
                    } else {
                        println!("MISSED in {seeds} seeds: {mutation:?}: {}", mutation.describe());
                        missed.lock().unwrap_or_else(|lock| lock.into_inner()).push(mutation);
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap_or_default();
    println!("{} caught, {} missed: {missed:?}", all - missed.len(), missed.len());
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

/// Runs seeds that can show a mistake until one fails that passes without it. Returns how it was
/// caught.
fn catch(mutation: Mutation, seeds: usize, exporter: &Exporter) -> Option<String> {
    let with = |mutation, seed| {
        mutation::choose(mutation);
        let result = attempt(&Spec::of(seed), exporter);
        mutation::choose(None);
        result
    };
    let shows = (0..).filter(|seed| can_show(mutation, &Plan::new(*seed)));
    (1..).zip(shows).take(seeds).find_map(|(after, seed)| {
        let failure = with(Some(mutation), seed).err()?;
        with(None, seed).is_ok().then(|| format!("with seed {seed}, after {after}: {}", failure.what))
    })
}
