//! What a deletion leaves behind, and what it leaves a while.

use super::plans::{ALL, effects};
use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::OwnerReference;
use kube_gc_core::object::PropagationPolicy::{Background, Foreground, Orphan};

/// The collector cannot tell whether such an owner exists. It releases what names it.
#[test]
fn what_names_an_unserved_version_stays_or_is_released() {
    for (root, namespace) in
        [(obj("widgets.example.com", "ns", "w"), "ns"), (obj("things.example.com", "", "w"), "x")]
    {
        let by = |change: &dyn Fn(&mut OwnerReference)| {
            let mut reference = root.reference();
            (reference.api_version, reference.block_owner_deletion) = ("example.com/v9".into(), true);
            change(&mut reference);
            reference
        };
        let pod = |name: &str| obj("pods", namespace, name);
        let old = pod("old").with(by(&|_| {}));
        let below = pod("below").owned(&old);
        let both = pod("both").owned(&root).with(by(&|_| {}));
        let solid = pod("solid").with(by(&|_| {})).owned(&obj("configmaps", namespace, "other"));
        let others = [
            pod("group").with(by(&|of| of.api_version = "example.org/v9".into())),
            pod("kind").with(by(&|of| of.kind = "Gadget".into())),
            pod("name").with(by(&|of| of.name = "x".into())),
            obj("pods", "elsewhere", "where").with(by(&|_| {})),
        ];
        let other = obj("configmaps", namespace, "other");
        let mut all = vec![&root, &old, &below, &both, &solid, &other];
        all.extend(&others[..3 + usize::from(namespace == "ns")]);
        for policy in ALL {
            let plan = Cluster::of(&all).plan(&root, policy);
            let expected = match policy {
                Orphan => ["both orphaned", "old orphaned", "solid kept", "w deleted"],
                Background | Foreground => ["both kept", "old kept", "solid kept", "w deleted"],
            };
            assert_eq!(effects(&plan), expected, "{policy} {namespace}");
            let old = plan.objects.iter().find(|object| object.name.name == "old").unwrap();
            let names = |names: &[ObjectName]| names.iter().map(|name| name.name.clone()).collect::<Vec<_>>();
            match policy {
                Orphan => {
                    assert_eq!((names(&old.loses), names(&old.kept_by)), (vec!["w".to_owned()], vec![]));
                }
                Background | Foreground => {
                    assert_eq!((names(&old.loses), names(&old.kept_by)), (vec![], vec!["w".to_owned()]));
                    assert!(old.why.as_ref().unwrap().contains("cannot be resolved"), "{old:?}");
                }
            }
        }
    }
}

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
