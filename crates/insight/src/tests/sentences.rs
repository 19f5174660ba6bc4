//! What is said about no object, about one, two and many.

use super::*;
use crate::hold::Held;
use crate::sentence;
use kube_gc_core::verdict::{Decision, IdleReason, KeepReason, ParkReason, Precheck, ReferenceClass};

fn name(name: &str) -> ObjectName {
    ObjectName::from(&config(name).identity())
}

/// References to this many owners of each class.
fn judged(classes: &[(ReferenceClass, usize)]) -> Vec<JudgedReference> {
    let classes = classes.iter().flat_map(|&(class, count)| std::iter::repeat_n(class, count));
    let reference = |class| JudgedReference {
        owner: name("o"),
        controller: false,
        block_owner_deletion: false,
        class,
        evidence: Evidence::NotServed { served_as: None },
        found: None,
        identity: None,
    };
    classes.map(reference).collect()
}

#[test]
fn a_verdict_agrees_with_the_number_of_owners() {
    use ReferenceClass::{Absent, InvalidScope, Orphaned, Solid, Unresolved, Waiting};
    let remove = |count| Decision::RemoveReferences { remove: (0..count).collect(), confirm_solid: None };
    let delete = || Decision::Delete { policy: PropagationPolicy::Background, stop_blocking_first: false };
    let park = || Decision::Park(ParkReason::Unresolved);
    let report = || Decision::Report { invalid_scope: Vec::new() };
    let keep = || Decision::Keep(KeepReason::Owned);
    for (decision, classes, said) in [
        (keep(), &[(Solid, 1)][..], "stays: its owner ConfigMap/o exists."),
        (keep(), &[(Solid, 2)], "stays: its 2 owners exist."),
        (keep(), &[(Solid, 5000)], "stays: its 5,000 owners exist."),
        (
            park(),
            &[(Unresolved, 1)],
            "stays for now, because nothing is proved: the server has no ConfigMap of v1.",
        ),
        (
            park(),
            &[(Unresolved, 1), (Solid, 1)],
            "stays for now, because nothing is proved: 1 of its 2 owners cannot be resolved.",
        ),
        (
            report(),
            &[(InvalidScope, 1)],
            "stays and is never collected: it is cluster-scoped and names 1 owner of a namespaced kind.",
        ),
        (
            report(),
            &[(InvalidScope, 2)],
            "stays and is never collected: it is cluster-scoped and names 2 owners of a namespaced kind.",
        ),
        (
            remove(1),
            &[(Solid, 1), (Absent, 1)],
            "stays and loses 1 owner reference: its owner ConfigMap/o keeps it, and not every owner does.",
        ),
        (
            remove(5000),
            &[(Solid, 1), (Waiting, 5000)],
            "stays and loses 5,000 owner references: its owner ConfigMap/o keeps it, and not every owner does.",
        ),
        (
            remove(1),
            &[(Orphaned, 1)],
            "stays and loses 1 owner reference: an owner was deleted with the policy Orphan.",
        ),
        (
            remove(2),
            &[(Orphaned, 2)],
            "stays and loses 2 owner references: an owner was deleted with the policy Orphan.",
        ),
        (delete(), &[(Absent, 1)], "is garbage: its owner ConfigMap/o does not exist in namespace ns."),
        (delete(), &[(Absent, 2)], "is garbage: none of its 2 owners exists."),
        (
            delete(),
            &[(Waiting, 1)],
            "is garbage: its owner ConfigMap/o is being deleted and waits for its dependents.",
        ),
        (
            delete(),
            &[(Waiting, 1), (Absent, 2)],
            "is garbage: none of its 3 owners keeps it, and at least one waits for its dependents.",
        ),
        (
            delete(),
            &[(Waiting, 5000)],
            "is garbage: none of its 5,000 owners keeps it, and at least one waits for its dependents.",
        ),
    ] {
        let verdict = sentence::decision(&name("c"), &decision, &judged(classes), Source::Lists);
        assert_eq!(verdict, format!("ConfigMap/c {said}"));
    }
}

#[test]
fn what_holds_an_object_is_said_of_one_and_of_several() {
    let held = |hold| Held::new(hold);
    for (hold, one, several) in [
        (Hold::GracePeriod, "the end of its grace period", "the end of their grace periods"),
        (Hold::Kubelet, "somebody to confirm its end", "somebody to confirm their end"),
        (
            Hold::Orphaning,
            "the collector to release its dependents",
            "the collector to release their dependents",
        ),
        (
            Hold::Unblocked,
            "the collector to remove its finalizer",
            "the collector to remove their finalizers",
        ),
        (Hold::ToBeDeleted, "the collector to delete it", "the collector to delete them"),
        (
            Hold::ToBeReleased,
            "the collector to remove its owner reference",
            "the collector to remove their owner references",
        ),
    ] {
        assert_eq!([held(hold).words(false), held(hold).words(true)], [one, several]);
    }
    let grace = held(Hold::GracePeriod);
    let both = sentence::held(&name("c"), &[held(Hold::Unblocked), grace.clone()]);
    assert_eq!(
        [sentence::held(&name("c"), &[grace]), both],
        [
            "ConfigMap/c is being deleted: the end of its grace period.",
            "ConfigMap/c is being deleted, and waits for the collector to remove its finalizer; the end of its grace \
             period.",
        ]
    );
    for (count, waits) in [(1, "1 blocking dependent"), (5000, "5,000 blocking dependents")] {
        let verdict =
            sentence::deletion(&name("c"), Precheck::WaitForDependents(count), &[], &Outside::default());
        assert_eq!(verdict, format!("ConfigMap/c is being deleted, and waits for {waits}."));
    }
    let nothing =
        sentence::deletion(&name("c"), Precheck::Nothing(IdleReason::Terminating), &[], &Outside::default());
    assert_eq!(nothing, "ConfigMap/c is being deleted.");
}

#[test]
fn what_is_left_in_a_namespace_is_counted() {
    let held = |finalizer: &str, count| HeldObjects {
        finalizer: FinalizerReport { name: finalizer.into(), ..FinalizerReport::default() },
        first_set: None,
        count,
        objects: Vec::new(),
    };
    for (left, held, said) in [
        (1, vec![], "1 object is left, not deleted yet."),
        (1, vec![held("a", 1)], "1 object is left, held by finalizer a."),
        (1, vec![held("a", 1), held("b", 1)], "1 object is left, held by finalizers a, b."),
        (2, vec![held("a", 2)], "2 objects are left, all held by finalizer a."),
        (5000, vec![held("a", 2), held("b", 1)], "5,000 objects are left, some held by finalizers a, b."),
    ] {
        let held_objects = held.iter().map(|held| held.count).max().unwrap_or_default();
        let report = NamespaceReport { left, held, held_objects, ..NamespaceReport::default() };
        let said = (Outcome::Waits, format!("ConfigMap/n cannot go: {said}"));
        assert_eq!(sentence::namespace(&name("n"), &report, true, &[]), said);
        let not_deleted = sentence::advice_on_namespace(&report, ".", false).pop().map(String::from);
        let are = if left == 1 { "1 object is not deleted yet." } else { "objects are not deleted yet." };
        assert!(not_deleted.is_some_and(|said| said.contains(are)), "{are}");
    }
}

#[test]
fn a_number_of_all_is_the_number() {
    let said = |number, all| counted_of(number, all, "object");
    assert_eq!([said(1, 1), said(1, 2), said(2, 2)], ["1 object", "1 of 2 objects", "2 objects"]);
    assert_eq!(said(0, 5000), "0 of 5,000 objects");
}

#[test]
fn who_answers_is_not_to_be_looked_for() {
    let leaf = Leaf {
        object: name("c"),
        blocks: name("o"),
        hold: Hold::ToBeDeleted,
        waits_for: String::new(),
        finalizers: Vec::new(),
        deleted: None,
    };
    let chain = Chain { leaves: vec![leaf], ..Chain::default() };
    let others = [Source::Collector, Source::DryRun, Source::Standby].map(|source| (source, false));
    for (source, looks) in [(Source::Lists, true)].into_iter().chain(others) {
        let held = Held::new(Hold::Unblocked).advice(&name("c"), 1, source);
        assert_eq!(sentence::advice_on_chain(&chain, source), held);
        assert!(
            held.len() == 1 && String::from(held[0].clone()).contains("look whether it runs") == looks,
            "{held:?}"
        );
    }
}
