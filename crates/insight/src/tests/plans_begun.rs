//! What a plan says of deletions that have begun already.

use super::plans::{ALL, effects};
use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::PropagationPolicy::{Background, Foreground, Orphan};

#[test]
fn what_is_being_deleted_already_is_not_counted() {
    let a = config("a");
    let b = pod("b").blocking(&a).terminating().held();
    let plan = Cluster::of(&[&a, &b]).read(&b, &["example.com/x"]).plan(&a, Foreground);
    assert_eq!(effects(&plan), ["a deleted after b", "b held"]);
    assert_eq!((plan.deletes, plan.objects[1].state), (1, State::Live));
    // An owner that is being deleted keeps a dependent until it has gone.
    let leaving = config("leaving").terminating().held();
    let c = pod("c").owned(&a).owned(&leaving);
    let plan = Cluster::of(&[&a, &c, &leaving]).plan(&a, Background);
    assert_eq!(effects(&plan), ["a deleted", "c deleted after leaving"]);
}

#[test]
fn what_is_being_deleted_already_is_said_to_be() {
    let claim = obj("persistentvolumeclaims", "ns", "data").terminating().held();
    let of_claim = || Cluster::of(&[&claim]).read(&claim, &["example.com/x"]);
    let plan = of_claim().plan(&claim, Background);
    assert_eq!(
        plan.verdict,
        "PersistentVolumeClaim/data was deleted at 2026-01-01T00:00:00Z and is still there; no other object goes, but \
         perhaps its volume (by its reclaim policy). PersistentVolumeClaim/data itself stays until finalizer \
         example.com/x is removed."
    );
    assert_eq!((plan.deletes, plan.objects[0].state), (0, State::Terminating));
    let live = obj("persistentvolumeclaims", "ns", "data").held();
    assert_eq!(
        Cluster::of(&[&live]).read(&live, &["example.com/x"]).plan(&live, Background).verdict,
        "PersistentVolumeClaim/data is marked for deletion and stays until finalizer example.com/x is removed; \
         nothing else goes, but perhaps its volume (by its reclaim policy)."
    );
    for (volume, says) in [(None, ""), (Some("gone"), ", but perhaps its volume (by its reclaim policy)")] {
        let of = |details: &mut Details| {
            details.particulars = Particulars::Claim { volume: volume.map(Into::into) }
        };
        let live = obj("persistentvolumeclaims", "ns", "data");
        let plan = Cluster::of(&[&live]).with(&live, of).plan(&live, Background);
        let said = format!("PersistentVolumeClaim/data is deleted; no other object goes{says}.");
        assert_eq!(plan.verdict, said);
    }
    // A pod on a dead node holds its namespace.
    let (namespace, pod) = (obj("namespaces", "", "ns"), pod("p").terminating());
    for (on, waits) in
        [("n1", "the kubelet of node n1 has not confirmed its end"), ("n2", "node n2 does not exist")]
    {
        let mut cluster = Cluster::of(&[&namespace, &pod, &node("n1")]).with(&pod, |details| {
            details.grace = 5;
            details.particulars = Particulars::Pod { node: Some(on.to_owned()) };
        });
        let plan = cluster.plan(&namespace, Background);
        assert_eq!(effects(&plan), ["ns deleted after p", "p held"]);
        let why = plan.objects.iter().find_map(|object| object.why.clone()).unwrap();
        let said = format!("its grace period of 5 s ended 55s ago, and {waits}");
        assert_eq!(why, said);
        assert!(plan.verdict.ends_with(" Namespace/ns waits for Pod/p."), "{}", plan.verdict);
        let itself = cluster.plan(&pod, Background).verdict;
        assert!(itself.contains(&said), "{itself}");
    }
}

/// The API server applies the policy of each DELETE.
#[test]
fn another_deletion_replaces_the_policy_of_one_that_has_begun() {
    let a = config("a");
    let was = "ConfigMap/a was deleted at 2026-01-01T00:00:00Z and is still there";
    for (begun, root, finalizers) in [
        (Background, a.clone().terminating().held(), &["example.com/x"][..]),
        (Foreground, a.clone().foreground(), &["foregroundDeletion"]),
        (Foreground, a.clone().foreground().held(), &["foregroundDeletion", "example.com/x"]),
        (Orphan, a.clone().orphaning(), &["orphan"]),
        (Orphan, a.clone().orphaning().held(), &["example.com/x", "orphan"]),
    ] {
        let (b, c) = (pod("b").blocking(&root), pod("c").owned(&root));
        let is_held = root.facts.held_by_others;
        for (policy, shown) in ALL.into_iter().flat_map(|policy| [(policy, &root), (policy, &a)]) {
            // The list may be older than the read, or without its type.
            let plan = Cluster::of(&[shown, &b, &c]).read(&root, finalizers).plan(&root, policy);
            let (effect, said) = match policy {
                Background if is_held => {
                    ("deleted after a", ", and its dependents follow when it is gone; 2 others go.")
                }
                Background => ("deleted", ", and its dependents follow; 2 others go."),
                Foreground => ("deleted", ", and goes after the dependents that block it; 2 others go."),
                Orphan => {
                    ("orphaned", ", and its dependents are released; no other object goes; 2 are orphaned.")
                }
            };
            let of_root = if is_held { "a held" } else { "a deleted" };
            let expected = [of_root.to_owned(), format!("b {effect}"), format!("c {effect}")];
            assert_eq!((effects(&plan), plan.cascade), (expected.into(), policy.into()), "{begun} {policy}");
            let rest = if is_held {
                " ConfigMap/a itself stays until finalizer example.com/x is removed."
            } else {
                ""
            };
            assert_eq!(plan.verdict, format!("{was}{said}{rest}"));
            let note = format!(
                "The deletion of ConfigMap/a began with {begun:?}, and another one changes that to {policy:?}."
            );
            assert_eq!(plan.notes.contains(&note), begun != policy, "{:?}", plan.notes);
        }
    }
    let root = a.clone().orphaning();
    let plan = Cluster::of(&[&root]).read(&root, &["orphan"]).plan(&root, Background);
    assert!(!plan.notes.iter().any(|note| note.contains("began")), "{:?}", plan.notes);
}

/// The API server does nothing with another DELETE, except for a shorter grace period.
#[test]
fn a_deletion_in_its_grace_period_or_of_a_namespace_that_is_emptied_goes_on_as_it_began() {
    let (p, namespace) = (pod("p").orphaning(), obj("namespaces", "", "n").orphaning());
    for (root, emptied, orphaned) in [(&p, false, true), (&namespace, true, true), (&namespace, false, false)]
    {
        let below = obj("configmaps", "ns", "below").owned(root);
        let plan = |policy| {
            let mut cluster = Cluster::of(&[root, &below]).with(root, |details| {
                details.finalizers = vec!["orphan".to_owned()];
                details.grace = u64::from(root.identity() == p.identity()) * 30;
                let finalizers = vec!["kubernetes".to_owned()];
                if emptied {
                    details.particulars = Particulars::Container { finalizers, conditions: Vec::new() };
                }
            });
            cluster.plan(root, policy)
        };
        let [background, orphan] = [plan(Background), plan(Orphan)];
        assert_eq!(effects(&background).contains(&"below orphaned".to_owned()), orphaned, "{background:?}");
        assert_eq!(background == orphan, orphaned, "{background:?}");
    }
}

#[test]
fn each_of_several_that_is_being_deleted_or_held_is_counted() {
    let (a, b) = (config("a").foreground(), config("b").foreground().held());
    let query = PlanQuery {
        roots: vec![a.identity(), b.identity()],
        policy: Foreground,
        others: Vec::new(),
        limit: 100,
    };
    let mut cluster = Cluster::of(&[&a, &b])
        .read(&a, &["foregroundDeletion"])
        .read(&b, &["example.com/x", "foregroundDeletion"]);
    let plan = cluster.plan_of(query, 100);
    let said =
        ". 2 of those named are being deleted already. 1 of those named stays until what holds it is gone.";
    assert!(plan.verdict.ends_with(said), "{}", plan.verdict);
    let note = "With this policy, nothing goes unless a collector runs.";
    assert!(plan.notes.iter().any(|of| of == note), "{:?}", plan.notes);
}
