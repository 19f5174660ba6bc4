//! Checks that the model finds mistakes: each that concerns it is made on purpose.

use std::time::{Duration, Instant};

use kube_gc_core::mutation::{self, Mutation};

use super::Options;
use super::scenes::parse as scene;
use super::search::{Failure, explore};
use super::tell;

/// The mistakes, and a scene in which each shows.
const CONCERNING: &[(Mutation, &str)] = &[
    (Mutation::DropUnblockWakeUp, "a b>a c>b, foreground, 1, 0"),
    (Mutation::TerminatingIsAbsent, "+a b c>a c>b, background, 2, 0"),
    (Mutation::AlwaysBackground, "a ^b>a c>b, background, 1, 0"),
    (Mutation::DeleteOverChanges, "a b c>a, background refer, 2, 0"),
    (Mutation::ConfirmForEver, "a b>a c>a, foreground orphan, 2, 0"),
    (Mutation::TrustSolidOwner, "a b c>a c>b, foreground background, 2, 0"),
    (Mutation::TrustOldList, "-a b, create refer relist, 2, 1"),
    (Mutation::KeepAbsences, "a b>a, background restore, 1, 1"),
    (Mutation::DeleteWithoutVersion, "a b c>a, background refer, 2, 0"),
    (Mutation::PatchWithoutVersion, "a b c>a c>b, background drop, 2, 0"),
    (Mutation::FinalizeByName, "a, orphan background create, 3, 0"),
    (Mutation::SkipOrphanRound, "a b, refer orphan, 2, 0"),
    (Mutation::UnbornIsAbsent, "-a b, birth refer, 2, 0"),
    (Mutation::AnyUidIsTheOwner, "a b>a, background create crash, 2, 1"),
    (Mutation::ResumeAfterGap, "a b>a, background relist, 1, 1"),
];

/// Makes each of the mistakes, prints how it was found, and returns whether all were.
pub fn prove(options: &Options) -> bool {
    let mut missed = Vec::new();
    for &(mistake, text) in
        CONCERNING.iter().filter(|(it, _)| options.mutation.is_none_or(|only| only == *it))
    {
        let Ok(scene) = scene(text) else { return false };
        let until = || Instant::now() + Duration::from_secs(600);
        let without = explore(&scene, options.states, until());
        mutation::choose(Some(mistake));
        let with = explore(&scene, options.states, until());
        match with.failure {
            Some(Failure { path, violation }) if without.failure.is_none() => {
                println!("found {mistake:?} after {} states of {text}: {violation}", with.states);
                tell(&scene, &path);
            }
            _ => missed.push(mistake),
        }
        mutation::choose(None);
    }
    println!("{} found, {} missed: {missed:?}", CONCERNING.len() - missed.len(), missed.len());
    missed.is_empty()
}
