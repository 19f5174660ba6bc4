//! What a deletion leaves behind, and what it leaves a while.

use super::plans::effects;
use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::PropagationPolicy::{Background, Foreground};

/// What nothing blocks does not wait for its dependents, whatever finalizer of others holds it.
#[test]
fn a_held_owner_that_nothing_blocks_leaves_its_references_for_later() {
    let (a, other) = (config("a").held(), config("other"));
    let kept = pod("kept").owned(&a).owned(&other);
    let plan = |more: &Obj| {
        let mut cluster = Cluster::of(&[&a, &other, &kept, more]).read(&a, &["example.com/x"]);
        effects(&cluster.plan(&a, Foreground))
    };
    assert_eq!(plan(&config("c")), ["a held", "kept kept after a"]);
    assert_eq!(plan(&config("c").blocking(&a)), ["a held", "c deleted", "kept kept"]);
}

#[test]
fn a_claim_names_the_pods_that_use_it() {
    let claim = obj("persistentvolumeclaims", "ns", "c").held();
    let namespace = obj("namespaces", "", "ns");
    let cluster = || Cluster::of(&[&claim, &namespace]).read(&claim, &["kubernetes.io/pvc-protection"]);
    let why = |root: &Obj| {
        let plan = cluster().plan(root, Background);
        let claim = plan.objects.into_iter().find(|object| object.name.name == "c").unwrap();
        claim.why.unwrap()
    };
    assert_eq!(
        why(&claim),
        "is deleted, and waits for finalizer kubernetes.io/pvc-protection: Pod/user uses it"
    );
    // Pods go with the namespace.
    assert_eq!(why(&namespace), "is deleted, and goes when its finalizers do, perhaps at once");
}
