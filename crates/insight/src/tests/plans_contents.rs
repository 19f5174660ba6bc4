//! What a plan takes along: with a namespace, a definition or a node, and claims with what uses them.

use super::plans::{effects, of_one};
use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::PropagationPolicy::{Background, Foreground, Orphan};

#[test]
fn a_namespace_takes_along_all_that_is_in_it() {
    let namespace = obj("namespaces", "", "ns");
    let kept = config("elsewhere");
    let b = pod("b").owned(&kept).with_finalizers(false, true);
    let below = pod("below").owned(&b);
    let outside = obj("pods", "other", "outside").owned(&namespace);
    for (policy, last) in
        [(Background, "outside deleted"), (Foreground, "outside deleted"), (Orphan, "outside orphaned")]
    {
        let plan = Cluster::of(&[&namespace, &b, &kept, &below, &outside]).plan(&namespace, policy);
        assert_eq!(
            effects(&plan),
            ["b deleted", "below deleted", "elsewhere deleted", "ns deleted", last],
            "{policy}"
        );
        assert_eq!(plan.objects[0].name.name, "ns", "it is listed first");
        let inside = plan.objects.iter().find(|object| object.name.name == "b").unwrap();
        assert_eq!(inside.within.as_ref().unwrap().name, "ns");
    }
}

#[test]
fn a_namespace_goes_last_and_never_if_an_api_does_not_answer() {
    let namespace = obj("namespaces", "", "ns");
    let (b, c) = (config("b").held(), pod("c").held());
    let outside = obj("pods", "other", "outside").owned(&namespace);
    let cluster = || {
        let cluster = Cluster::of(&[&namespace, &b, &c, &outside]);
        cluster.read(&b, &["example.com/x"]).read(&c, &["example.com/x"])
    };
    assert_eq!(
        cluster().plan(&namespace, Background).verdict,
        "Namespace/ns is deleted last, after its 2 objects; 1 more goes; 2 stay until finalizers are removed. \
         Namespace/ns waits for ConfigMap/b, Pod/c."
    );
    let mut silent = cluster();
    let api = Unseen { what: "example.com/v1".to_owned(), why: "503".to_owned() };
    silent.outside.silent_objects.push(api.clone());
    silent.outside.silent_apis.push(api);
    let plan = silent.plan(&namespace, Background);
    let says = " Namespace/ns cannot go until example.com/v1 answers.";
    assert!(plan.verdict.contains(says) && plan.depends_on_unseen, "{}", plan.verdict);
    assert_eq!((plan.objects[0].effect, plan.objects[0].name.name.as_str()), (Effect::Held, "ns"));
    // It hangs, and what is in it goes all the same.
    assert!(
        plan.verdict.starts_with("Namespace/ns is deleted last, after its objects, unless something that was not looked at holds it; at least 1 \
             more goes;")
    );
}

#[test]
fn a_finalizer_in_the_spec_of_a_namespace_holds_it() {
    let (owner, namespace) = (node("n"), obj("namespaces", "", "ns").owned(&node("n")));
    for (root, effect) in [(&namespace, "ns held"), (&owner, "ns held")] {
        let mut cluster = Cluster::of(&[&owner, &namespace]).with(&namespace, |details| {
            let finalizers = ["kubernetes", "example.com/quota"].map(str::to_owned).into();
            details.particulars = Particulars::Container { finalizers, conditions: Vec::new() };
        });
        let plan = cluster.plan(root, Background);
        assert!(effects(&plan).contains(&effect.to_owned()), "{plan:?}");
        let held = plan.objects.iter().find(|object| object.effect == Effect::Held).unwrap();
        let names = held.finalizers.iter().flatten().map(|finalizer| finalizer.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["example.com/quota"]);
    }
}

/// The first DELETE marks it, unless the collector or somebody else changes it afterwards.
#[test]
fn a_namespace_without_finalizers_in_its_spec_keeps_what_is_in_it() {
    let live = obj("namespaces", "", "ns");
    let (inside, owned) = (config("inside"), obj("pods", "other", "owned").owned(&live));
    for (namespace, policy, finalizers, expected) in [
        (live.clone(), Background, &[][..], ["ns held", "owned deleted after ns"]),
        (live.clone(), Background, &["example.com/x"], ["ns held", "owned deleted after ns"]),
        (live.clone(), Foreground, &[], ["ns deleted", "owned deleted"]),
        (live.clone(), Orphan, &[], ["ns deleted", "owned orphaned"]),
        (live.clone().terminating(), Background, &[], ["ns deleted", "owned deleted"]),
        (live.clone().terminating(), Background, &["example.com/x"], ["ns held", "owned deleted after ns"]),
    ] {
        let mut cluster = Cluster::of(&[&namespace, &inside, &owned]).with(&namespace, |details| {
            details.finalizers = finalizers.iter().map(|&name| name.to_owned()).collect();
            let finalizers = Vec::new();
            details.particulars = Particulars::Container { finalizers, conditions: Vec::new() };
        });
        let api = Unseen { what: "example.com/v1".to_owned(), why: "503".to_owned() };
        cluster.outside.silent_apis.push(api);
        let plan = cluster.plan(&namespace, policy);
        assert_eq!(effects(&plan), expected, "{policy} {finalizers:?}");
        let stays = " What is in Namespace/ns stays, because nobody empties a namespace without finalizers in its spec.";
        assert!(plan.verdict.ends_with(stays), "{}", plan.verdict);
        assert!(!plan.notes.iter().any(|note| note.contains("deletes what is in")), "{:?}", plan.notes);
        let note = "With this policy, nothing goes unless a collector runs.";
        assert_eq!(plan.notes.iter().any(|of| of == note), policy != Background, "{:?}", plan.notes);
        let is_only_marked = plan.objects[0].why.as_deref() == Some("goes when it is deleted again");
        assert_eq!(is_only_marked, expected[0] == "ns held" && finalizers.is_empty());
    }
}

/// Its controller deletes them, whatever their owners do.
#[test]
fn what_is_in_a_namespace_does_not_wait_for_owners_elsewhere() {
    let (namespace, leaving) = (obj("namespaces", "", "ns"), node("leaving").terminating().held());
    let (inside, outside) =
        (config("inside").owned(&leaving), obj("pods", "other", "outside").owned(&leaving));
    let outside = outside.owned(&namespace);
    let plan = Cluster::of(&[&namespace, &inside, &outside, &leaving]).plan(&namespace, Background);
    assert_eq!(effects(&plan), ["inside deleted", "ns deleted", "outside deleted after leaving"]);
}

#[test]
fn a_node_takes_its_pods_along_and_does_not_wait_for_them() {
    let node = node("n");
    let (runs, other) = (pod("runs").held(), pod("other"));
    let mut cluster = Cluster::of(&[&node, &runs, &other]).read(&runs, &["example.com/x"]);
    let pods = vec![(0, runs.key())];
    let query = PlanQuery { roots: vec![node.identity()], policy: Background, others: pods, limit: 100 };
    let plan = cluster.plan_of(query, 100);
    assert_eq!(effects(&plan), ["n deleted", "runs held"]);
    assert!(plan.by_collector.is_empty() && !plan.verdict.contains("waits"), "{}", plan.verdict);
    assert!(plan.verdict.contains("its pods and dependents follow"), "{}", plan.verdict);
    assert!(!plan.notes.iter().any(|note| note.contains("stays for its grace period")), "{:?}", plan.notes);
}

/// PodGC does not wait for a kubelet, so they count, and what they own does not wait.
#[test]
fn pods_that_are_being_deleted_go_with_their_node() {
    let (node, ended) = (node("n"), pod("ended").terminating());
    let (held, below) = (pod("held").terminating().held(), config("below").owned(&ended));
    let mut cluster = Cluster::of(&[&node, &ended, &held, &below]).read(&held, &["example.com/x"]);
    let others = vec![(0, ended.key()), (0, held.key())];
    let query = PlanQuery { roots: vec![node.identity()], policy: Background, others, limit: 100 };
    let plan = cluster.plan_of(query, 100);
    assert_eq!(effects(&plan), ["below deleted", "ended deleted", "held held", "n deleted"]);
    assert_eq!(plan.deletes, 4);
}

/// It may come back.
#[test]
fn a_pod_on_a_node_that_is_not_ready_may_stay() {
    let (unready, ready, owner) = (node("unready"), node("ready"), config("o"));
    let pods = [("a", "unready"), ("b", "ready"), ("c", "gone")].map(|(name, _)| pod(name).blocking(&owner));
    let [a, b, c] = &pods;
    let mut cluster = Cluster::of(&[&unready, &ready, &owner, a, b, c]);
    for (pod, on) in [(a, "unready"), (b, "ready"), (c, "gone")] {
        let particulars = Particulars::Pod { node: Some(on.to_owned()) };
        cluster = cluster.with(pod, |details| details.particulars = particulars);
    }
    cluster = cluster.with(&unready, |details| details.particulars = Particulars::Node(NodeState::Unready));
    let plan = cluster.plan(&owner, Foreground);
    assert_eq!(effects(&plan), ["a unknown", "b deleted", "c deleted", "o deleted after a"]);
    let why = "its kubelet has to confirm its end, and node unready is not ready";
    assert_eq!(plan.objects[0].why.as_deref(), Some(why));
    assert_eq!(effects(&cluster.plan(a, Background)), ["a unknown"]);
    // With the node, PodGC deletes it.
    let others = vec![(0, a.key())];
    let query = PlanQuery { roots: vec![unready.identity()], policy: Background, others, limit: 100 };
    assert_eq!(effects(&cluster.plan_of(query, 100)), ["a deleted", "unready deleted"]);
}

#[test]
fn what_the_api_server_refuses_is_not_planned() {
    let (refused, other) = (obj("namespaces", "", "kube-system"), config("a"));
    let mut plan = Cluster::of(&[&refused, &other]).plan(&refused, Background);
    assert_eq!(plan.verdict, "The API server refuses to delete Namespace/kube-system.");
    assert_eq!((plan.deletes, plan.objects.len(), plan.exists), (0, 0, Some(true)));
    assert!(!Plan::is_refused(&other.identity()));
    plan.verdict = "ConfigMap/a is deleted.".to_owned();
    assert_eq!(plan.refused, [(&refused.identity()).into()]);
    plan.refuse(&[refused.identity()]);
    assert!(plan.verdict.ends_with("/a is deleted. The API server refuses to delete Namespace/kube-system."));
}

/// Whatever was asked for before: the namespace controller deletes in the background.
#[test]
fn what_is_in_a_namespace_does_not_go_on_as_its_deletion_began() {
    let namespace = obj("namespaces", "", "ns");
    let (a, b) = (config("a").foreground(), config("b").orphaning());
    let blocking = |name: &str, of: &Obj| config(name).blocking(of).terminating().held();
    let (x, y) = (blocking("x", &a), config("y").owned(&b));
    let finalizer: &[&str] = &["example.com/x"];
    let mut cluster = Cluster::of(&[&namespace, &a, &b, &x, &y]).read(&x, finalizer);
    cluster = cluster.read(&a, &["foregroundDeletion"]).read(&b, &["orphan"]);
    let expected = ["a deleted", "b deleted", "ns deleted after x", "x held", "y deleted"];
    for policy in [Background, Foreground] {
        assert_eq!(effects(&cluster.plan(&namespace, policy)), expected);
        // One that is named beside it is in it all the same.
        for roots in [[&namespace, &a], [&a, &namespace]] {
            let roots = roots.map(Obj::identity).to_vec();
            let query = PlanQuery { roots, policy, others: Vec::new(), limit: 100 };
            assert_eq!(effects(&cluster.plan_of(query, 100)), expected);
        }
    }
}

/// What is in both waits in both.
#[test]
fn a_namespace_and_a_definition_wait_for_what_they_share() {
    let namespace = obj("namespaces", "", "ns");
    let definition = obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com").held();
    let widget = obj("widgets.example.com", "ns", "w").held();
    for roots in [[&namespace, &definition], [&definition, &namespace]] {
        let mut cluster = Cluster::of(&[&namespace, &definition, &widget])
            .read(&widget, &["example.com/x"])
            .read(&definition, &["customresourcecleanup.apiextensions.k8s.io"]);
        let roots = roots.map(Obj::identity).to_vec();
        let query = PlanQuery { roots, policy: Background, others: Vec::new(), limit: 100 };
        let plan = cluster.plan_of(query, 100);
        let expected = ["ns deleted after w", "w held", "widgets.example.com deleted after w"];
        assert_eq!(effects(&plan), expected, "{plan:?}");
    }
}

/// It is being deleted, and its loss is counted.
#[test]
fn a_claim_that_a_pod_frees_may_go_with_it() {
    let (user, claim) = (pod("user"), obj("persistentvolumeclaims", "ns", "data").terminating().held());
    let mut cluster = Cluster::of(&[&user, &claim]).read(&claim, &["kubernetes.io/pvc-protection"]);
    let others = vec![(0, claim.key())];
    let query = PlanQuery { roots: vec![user.identity()], policy: Background, others, limit: 100 };
    let plan = cluster.plan_of(query, 100);
    assert_eq!(effects(&plan), ["data unknown", "user deleted"]);
    assert_eq!((plan.deletes, plan.objects[0].is_precious()), (2, true));
    assert!(plan.verdict.ends_with("; 1 may go or stay."), "{}", plan.verdict);
}

/// Pods go first, so one that is held delays everything else.
#[test]
fn a_held_pod_delays_what_is_in_its_namespace() {
    let namespace = obj("namespaces", "", "ns");
    let (held, other, config) = (pod("held").held(), pod("other"), config("config"));
    let elsewhere = obj("configmaps", "other", "elsewhere").owned(&namespace);
    let objects = [&namespace, &held, &other, &config, &elsewhere];
    let plan = Cluster::of(&objects).read(&held, &["example.com/x"]).plan(&namespace, Background);
    let expected = ["config deleted after held", "elsewhere deleted after held", "held held"];
    assert_eq!(effects(&plan)[..3], expected);
    assert_eq!(effects(&plan)[3..], ["ns deleted after held", "other deleted"]);
}

/// The condition of a definition says why the API server fails to delete its objects.
#[test]
fn a_definition_whose_objects_cannot_be_deleted_is_not_said_to_go() {
    let definition =
        obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com").terminating().held();
    let finalizer = "customresourcecleanup.apiextensions.k8s.io";
    let says = "could not list instances: conversion webhook failed";
    for (conditions, effect, is_said) in [(vec![], "deleted", false), (vec![says], "held", true)] {
        let conditions = conditions
            .into_iter()
            .map(|message| NamespaceCondition { kind: "Terminating".into(), message: message.into() });
        let conditions: Vec<_> = conditions.collect();
        let mut cluster = Cluster::of(&[&definition]).with(&definition, |details| {
            details.finalizers = vec![finalizer.to_owned()];
            details.particulars = Particulars::Container { finalizers: Vec::new(), conditions };
        });
        let plan = cluster.plan(&definition, Background);
        assert_eq!(effects(&plan), [format!("widgets.example.com {effect}")]);
        assert_eq!(plan.verdict.contains(&format!("its condition Terminating says: {says}")), is_said);
        for left in [&[][..], &[(pod("w").identity(), kube_gc_core::object::DeletionState::Live)]] {
            let explained = cluster.ask(|asker| explain_namespace(asker, &definition.identity(), left));
            assert_eq!(explained.verdict.contains(says), is_said, "{explained:?}");
        }
    }
}

/// Nothing that controllers of Kubernetes remove by themselves is promised to keep an object.
#[test]
fn what_only_protects_from_use_may_go_at_once() {
    let protection = "kubernetes.io/pvc-protection";
    let claim = obj("persistentvolumeclaims", "ns", "data").held();
    let freed = "PersistentVolumeClaim/data itself may go or stay: kube-controller-manager or a collector with \
                 --remove-protection-finalizers removes finalizer kubernetes.io/pvc-protection as soon as no pod uses the claim any more.";
    let plan = Cluster::of(&[&claim]).read(&claim, &[protection]).plan(&claim, Background);
    assert_eq!(effects(&plan), ["data unknown"]);
    let volume = "; no other object goes, but perhaps its volume (by its reclaim policy). ";
    let said = format!("PersistentVolumeClaim/data is marked for deletion{volume}");
    assert_eq!(plan.verdict, format!("{said}{freed}"));
    assert_eq!((plan.deletes, plan.perhaps_deletes), (1, 0), "it is deleted");
    assert!(plan.objects[0].why.is_some() && plan.objects[0].is_precious());
    assert!(plan.notes.iter().any(|note| note.contains("reclaim policy")), "{:?}", plan.notes);
    let begun = claim.clone().terminating();
    let plan = Cluster::of(&[&begun]).read(&begun, &[protection]).plan(&begun, Background);
    assert_eq!(effects(&plan), ["data unknown"]);
    assert!(plan.verdict.ends_with(&format!(" is still there{volume}{freed}")), "{plan:?}");
    // A finalizer of somebody else does keep it.
    let plan = Cluster::of(&[&claim]).read(&claim, &[protection, "example.com/x"]).plan(&claim, Background);
    assert_eq!(effects(&plan), ["data held"]);
    // As one of several, below an owner, in a namespace, and if its finalizers were not read.
    let (a, namespace) = (config("a"), obj("namespaces", "", "ns"));
    let below = claim.clone().owned(&a);
    let roots = vec![a.identity(), claim.identity()];
    let query = PlanQuery { roots, policy: Background, others: Vec::new(), limit: 100 };
    let plan = Cluster::of(&[&a, &claim]).read(&claim, &[protection]).plan_of(query, 100);
    assert!(plan.verdict.ends_with("; no other object goes. 1 of those named may go or stay."), "{plan:?}");
    for (root, live, said) in [
        (&a, None, " follow; 1 may go or stay."),
        (&a, Some(Live::Failed("403".into())), " follow; 1 may go or stay."),
        (
            &namespace,
            None,
            "after its 2 objects; 1 may go or stay. Namespace/ns waits for PersistentVolumeClaim/data.",
        ),
    ] {
        let mut cluster = Cluster::of(&[&a, &namespace, &below]).read(&below, &[protection]);
        if let Some(live) = live {
            cluster = cluster.reading(&below, live);
        }
        let plan = cluster.plan(root, Background);
        assert!(effects(&plan).contains(&"data unknown".to_owned()), "{plan:?}");
        assert!(plan.verdict.ends_with(said), "{}", plan.verdict);
    }
}

#[test]
fn a_definition_takes_along_the_objects_of_its_type() {
    let definition = obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com").held();
    let a = obj("widgets.example.com", "ns", "a");
    let b = obj("widgets.example.com", "other", "b").held();
    let below = config("below").owned(&a);
    let cleanup = "customresourcecleanup.apiextensions.k8s.io";
    let mut cluster = Cluster::of(&[&definition, &a, &b, &below])
        .read(&definition, &[cleanup])
        .read(&b, &["example.com/x"]);
    let plan = cluster.plan(&definition, Background);
    assert_eq!(
        effects(&plan),
        ["a deleted", "b held", "below deleted", "widgets.example.com deleted after b"]
    );
    assert_eq!(plan.by_collector.iter().map(|(_, count)| count).sum::<u64>(), 1, "only what is below");
}

#[test]
fn claims_are_listed_first_and_the_rest_is_counted() {
    let a = config("a");
    let pods: Vec<Obj> = (0..5).map(|number| pod(&format!("p{number}")).owned(&a)).collect();
    let claim = obj("persistentvolumeclaims", "ns", "data").owned(&a);
    let objects: Vec<&Obj> = [&a].into_iter().chain(&pods).chain([&claim]).collect();
    let mut cluster = Cluster::of(&objects);
    let shown = cluster.plan_of(of_one(&a, Background, 1000), 0);
    assert_eq!(effects(&shown), ["data deleted"]);
    assert_eq!((shown.deletes, shown.not_listed), (7, 6));
    assert!(shown.notes.iter().any(|note| note.contains("reclaim policy")));
    // A walk is bounded.
    let plan = cluster.plan_of(of_one(&a, Background, 3), 9);
    assert!(plan.truncated && plan.depends_on_unseen && plan.deletes == 3);
}
