//! Costs grow linearly, measured in steps and not in time.

use super::Bed;
use crate::graph::testing::world::{Obj, config};
use crate::graph::*;
use crate::object::*;

impl Bed {
    /// Evaluates every queued key, as workers do, until there is none. Returns those that are in a
    /// cycle.
    fn work(&mut self) -> Vec<Key> {
        let mut deadlocked = Vec::new();
        loop {
            let keys: Vec<Key> = self.out.take_delete().collect();
            if keys.is_empty() {
                return deadlocked;
            }
            for key in keys {
                if let Snapshot::Object(object) = self.partition.snapshot_and_queue(&key, &mut self.out)
                    && object.foreground == ForegroundProgress::Deadlocked
                {
                    deadlocked.push(key);
                }
            }
            // Each evaluation queues what blocks the object and is not being deleted; ignore these.
            self.out.delete.clear();
        }
    }
}

/// The lengths of chains and cycles. A tenant can create the longer ones, for which recursion would
/// overflow the stack.
const LENGTHS: [usize; 2] = [2_000, 100_000];

/// Asserts that twice the input takes at most this factor more steps.
fn grows_with(size: usize, steps_of: impl Fn(usize) -> u64) {
    let (once, twice) = (steps_of(size), steps_of(2 * size));
    let each = once as f64 / size as f64;
    assert!(twice as f64 <= once as f64 * 2.2, "{once} steps for {size}, {twice} for twice as many");
    assert!(each <= 60.0, "{each} steps for each of {size}");
}

fn member(number: usize) -> Obj {
    config(&format!("c{number}"))
}

/// A chain of this many objects. Each but the first blocks the one before, which owns it.
fn chain(length: usize) -> Vec<Obj> {
    (0..length)
        .map(|number| if number == 0 { member(0) } else { member(number).blocking(&member(number - 1)) })
        .collect()
}

fn shown(objects: &[Obj]) -> Bed {
    let mut bed = Bed::new(PartitionId(1));
    objects.iter().for_each(|object| bed.see(object));
    bed.out.clear();
    bed
}

#[test]
fn a_foreground_deletion_of_a_chain_takes_linear_time_from_either_end() {
    let delete = |length: usize, order: &dyn Fn(usize) -> usize| {
        let objects = chain(length);
        let mut bed = shown(&objects);
        steps::of(|| {
            for number in 0..length {
                bed.see(&objects[order(number)].clone().foreground().at(11));
                assert!(bed.work().is_empty(), "there is no cycle");
            }
        })
    };
    for length in LENGTHS {
        grows_with(length, |length| delete(length, &|number| number));
        grows_with(length, |length| delete(length, &|number| length - 1 - number));
    }
    // Every second object first, then the others, from either end.
    grows_with(2_000, |length| {
        delete(length, &|number| if number < length / 2 { 2 * number } else { 2 * (number - length / 2) + 1 })
    });
    grows_with(2_000, |length| {
        delete(length, &|number| if number < length / 2 { 2 * number } else { 2 * (length - 1 - number) + 1 })
    });
}

#[test]
fn a_restart_during_a_foreground_deletion_of_a_chain_takes_linear_time() {
    for length in LENGTHS {
        grows_with(length, |length| {
            let objects: Vec<Obj> = chain(length).into_iter().map(Obj::foreground).collect();
            let mut bed = shown(&objects);
            steps::of(|| {
                bed.partition.rederive(&mut bed.out);
                assert!(bed.work().is_empty(), "there is no cycle");
                // When the last object goes, the chain is deleted from its end.
                for object in objects.iter().rev() {
                    bed.events(&[WatchEvent::Delete(object.facts.clone())]);
                    assert!(bed.work().is_empty());
                }
            })
        });
    }
}

#[test]
fn a_foreground_deletion_of_a_cycle_takes_linear_time() {
    for length in LENGTHS {
        grows_with(length, deleted_cycle);
    }
}

/// The steps for a cycle of this many objects: its deletion, a restart, and the change that breaks it.
fn deleted_cycle(length: usize) -> u64 {
    let mut objects = chain(length);
    objects[0] = member(0).blocking(&member(length - 1));
    let mut bed = shown(&objects);
    steps::of(|| {
        let mut deadlocked = Vec::new();
        for object in &objects {
            bed.see(&object.clone().foreground().at(11));
            deadlocked.extend(bed.work());
        }
        assert!(!deadlocked.is_empty(), "the object that closes the cycle finds it");
        // Another replica becomes the leader before anything was done.
        bed.partition.rederive(&mut bed.out);
        assert_eq!(bed.work().len(), length, "all objects are in the cycle");
        let opened = objects[7].clone().unowned().owned(&objects[6]).foreground().at(12);
        bed.see(&opened);
        bed.partition.rederive(&mut bed.out);
        assert!(bed.work().is_empty(), "the cycle is broken");
    })
}

/// Adds an object with this many references, replaces them by others, removes them and deletes the
/// object, in partition `of`.
fn rewritten(count: usize, of: PartitionId, reference: impl Fn(usize) -> OwnerReference) -> u64 {
    let mut bed = Bed::new(of);
    let with = |numbers: std::ops::Range<usize>, version: u64| {
        numbers.fold(member(0), |fat, number| fat.with(reference(number))).at(version)
    };
    steps::of(|| {
        bed.see(&with(0..count, 10));
        bed.see(&with(count / 2..count + count / 2, 11));
        bed.see(&with(0..0, 12));
        bed.see(&with(0..count, 13));
        bed.events(&[WatchEvent::Delete(with(0..count, 14).facts)]);
        assert_eq!(bed.partition.stats().edges, 0);
    })
}

#[test]
fn an_object_with_thousands_of_owners_takes_linear_time() {
    let of = |kind: &str, name: String, uid: String| OwnerReference {
        kind: kind.into(),
        block_owner_deletion: true,
        ..config_map("ns", &name, &uid).reference()
    };
    for kind in ["ConfigMap", "Node", "Nobody"] {
        let each_another = |number: usize| of(kind, format!("o{number}"), random_uid(number as u64));
        let one_by_many_names = |number: usize| of(kind, format!("o{number}"), "one".to_owned());
        grows_with(4_000, |count| rewritten(count, PartitionId(1), each_another));
        grows_with(4_000, |count| rewritten(count, PartitionId(1), one_by_many_names));
    }
}

#[test]
fn a_foreground_deletion_of_thousands_of_owners_takes_linear_time() {
    grows_with(1_000, |count| {
        let owners: Vec<Obj> = (1..=count).map(|number| member(number).foreground()).collect();
        let mut bed = shown(&owners);
        let blocking = owners.iter().fold(member(0), |fat, owner| fat.blocking(owner));
        steps::of(|| {
            bed.see(&blocking);
            bed.see(&blocking.clone().foreground().at(11));
            bed.see(&blocking.clone().unowned().at(12));
            let woken = bed.out.delete.iter().filter(|key| **key != member(0).key()).count();
            assert_eq!(
                woken,
                2 * count,
                "once when all blocking dependents are deleting dependents, and once when none is left"
            );
        })
    });
}

#[test]
fn dependents_that_disagree_about_their_owner_take_linear_time() {
    // The owner is looked up with backoff, a number of times.
    grows_with(5_000, |count| {
        let owner = OwnerReference { name: "o".into(), ..member(0).reference() };
        let dependent = |number: usize| {
            member(number).with(OwnerReference { name: format!("o{number}").into(), ..owner.clone() })
        };
        let objects: Vec<Obj> = (1..=count).map(dependent).collect();
        let mut bed = shown(&objects);
        steps::of(|| {
            for _ in 0..3 {
                let Snapshot::Virtual { identity, generation } =
                    bed.partition.snapshot_and_queue(&member(0).key(), &mut bed.out)
                else {
                    panic!("no monitor shows the owner")
                };
                let verdict = bed.partition.verified(&identity, Finding::Absent, generation, &mut bed.out);
                assert_eq!(verdict, Verification::Retry);
            }
            // Each dependent needs a look-up of its own.
            for object in &objects {
                bed.events(&[WatchEvent::Delete(object.facts.clone())]);
            }
            assert_eq!(bed.partition.stats().nodes, 0);
        })
    });
}
