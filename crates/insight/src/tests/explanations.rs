use super::*;
use kube_gc_core::graph::Snapshot;
use kube_gc_core::graph::testing::histories;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::{OwnerReference, Uid};
use kube_gc_core::verdict::precheck;
use proptest::prelude::*;

/// `tests/insight/explain.rs` shows that the collector does what a verdict says.
#[test]
fn the_verdict_follows_from_the_owners_and_the_evidence() {
    let (a, gone) = (config("a"), config("gone"));
    let item = pod("p").owned(&a);
    let both = pod("p").owned(&a).owned(&gone);
    let widget = obj("widgets.example.com", "ns", "w").reference();
    let unserved = OwnerReference { api_version: "extensions/v9".into(), ..widget };
    let taken = || Live::Absent(AbsenceEvidence::OtherUid(Uid::parse("new").unwrap()));
    for (cluster, item, outcome, evidence, verdict) in [
        (
            Cluster::of(&[&a]),
            &a,
            Outcome::Stays,
            None,
            "ConfigMap/a stays: it has no owner references, so it is never garbage.",
        ),
        (
            Cluster::of(&[&a, &item]),
            &item,
            Outcome::Stays,
            Some(Evidence::Watched),
            "Pod/p stays: its owner ConfigMap/a exists.",
        ),
        (
            Cluster::of(&[&item]).read(&a, &[]),
            &item,
            Outcome::Stays,
            Some(Evidence::Read),
            "Pod/p stays: its owner ConfigMap/a exists.",
        ),
        (
            Cluster::of(&[&item]).reading(&a, taken()),
            &item,
            Outcome::Goes,
            Some(Evidence::OtherUid { uid: "new".into() }),
            "Pod/p is garbage: its owner ConfigMap/a does not exist. The collector deletes it with the policy \
             Background.",
        ),
        (
            Cluster::of(&[&a, &both]),
            &both,
            Outcome::LosesReferences,
            Some(Evidence::Watched),
            "Pod/p stays and loses 1 owner reference: its owner ConfigMap/a exists, others do not.",
        ),
        (
            Cluster::of(&[&pod("p").with(unserved.clone())]),
            &pod("p"),
            Outcome::Undecided,
            Some(Evidence::NotServed { served_as: Some("example.com/v2".into()) }),
            "Pod/p stays for now: 1 of its 1 owner cannot be resolved, so nothing is proved about it.",
        ),
    ] {
        let mut cluster = cluster;
        let explained = cluster.explain(item);
        assert_eq!((explained.outcome, explained.verdict.as_str()), (outcome, verdict));
        assert_eq!(explained.references.first().map(|reference| reference.evidence.clone()), evidence);
        assert!(!explained.depends_on_unseen, "reading more would not help");
    }
    let explained = Cluster::of(&[&item]).reading(&a, Live::Failed("403 Forbidden".into())).explain(&item);
    assert_eq!((explained.outcome, explained.depends_on_unseen), (Outcome::Undecided, true));
}

#[test]
fn a_chain_is_followed_to_the_finalizer_that_holds_it() {
    let root = config("root").foreground();
    let middle = obj("widgets.example.com", "ns", "middle").blocking(&root).foreground();
    let last = pod("last").blocking(&middle).terminating();
    let free = pod("free").owned(&middle);
    let mut cluster = Cluster::of(&[&root, &middle, &last, &free]).read(&last, &["example.com/drain"]);
    let explained = cluster.explain(&root);
    assert_eq!(explained.outcome, Outcome::Waits);
    assert_eq!(explained.verdict, "ConfigMap/root is being deleted, and waits for 1 blocking dependent.");
    let links: Vec<_> =
        explained.chain.links.iter().map(|link| (link.object.to_string(), link.waits_for)).collect();
    assert_eq!(links, [("ConfigMap/root".to_owned(), 1), ("Widget/middle".to_owned(), 1)]);
    let [leaf] = &explained.chain.leaves[..] else { panic!("{:?}", explained.chain) };
    assert_eq!((leaf.object.to_string(), leaf.hold.clone()), ("Pod/last".to_owned(), Hold::Finalizers));
    assert_eq!(leaf.blocks.to_string(), "Widget/middle");
    assert_eq!(leaf.finalizers[0].api_is_served, Some(true));
    assert_eq!(explained.advice, ["Finalizer example.com/drain: look at the controller that sets it."]);
}

#[test]
fn a_dependent_that_the_collector_deletes_next_is_told_from_one_that_another_owner_keeps() {
    let (root, other) = (config("root").foreground(), config("other"));
    let goes = pod("goes").blocking(&root);
    let kept = pod("kept").blocking(&root).owned(&other);
    let explained = Cluster::of(&[&root, &other, &goes, &kept]).explain(&root);
    let holds: Vec<_> =
        explained.chain.leaves.iter().map(|leaf| (&*leaf.object.name, leaf.hold.clone())).collect();
    assert_eq!(holds, [("goes", Hold::ToBeDeleted), ("kept", Hold::ToBeReleased)]);
}

#[test]
fn the_reads_of_a_question_are_bounded() {
    let mut item = pod("p");
    for number in 0..1000 {
        item = item.owned(&config(&format!("c{number}")));
    }
    let mut cluster = Cluster::of(&[&item]);
    let identity = item.identity();
    let explained = cluster.ask_with(20, |asker| explain(asker, &identity));
    assert_eq!((explained.outcome, explained.depends_on_unseen), (Outcome::Undecided, true));
    assert_eq!(cluster.needed.iter().filter(|need| matches!(need, Need::Live(_))).count(), 20);
    assert_eq!((explained.reference_count, explained.references.len()), (1000, 64));
}

#[test]
fn texts_of_any_length_are_cut() {
    let long = "x".repeat(100_000);
    let reference =
        OwnerReference { kind: long.as_str().into(), name: long.as_str().into(), ..config("a").reference() };
    let item = pod("p").with(reference);
    let explained = Cluster::of(&[&item]).explain(&item);
    let json = serde_json::to_string(&explained).unwrap();
    assert!(json.len() < 10_000, "{} bytes", json.len());
}

#[test]
fn well_known_finalizers_are_explained() {
    for name in
        ["kubernetes.io/pvc-protection", "external-attacher/ebs-csi-aws-com", "machine.cluster.x-k8s.io"]
    {
        assert!(known_finalizer(name).is_some(), "{name}");
    }
    assert_eq!(known_finalizer("example.com/kubernetes"), None);
}

#[test]
fn who_holds_a_namespace_is_to_be_looked_at() {
    let namespace = node("old").terminating();
    let held = ["a", "b", "c"].map(|name| config(name).terminating());
    let times =
        [("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"), ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")];
    let read = |manager: &str, finalizers: &[&str], (time, last_write): (&str, &str)| Details {
        finalizers: finalizers.iter().map(|&name| name.to_owned()).collect(),
        setters: vec![FinalizerSetter {
            finalizer: finalizers[0].to_owned(),
            manager: manager.to_owned(),
            time: Some(time.to_owned()),
            last_write: Some(last_write.to_owned()),
        }],
        ..Details::default()
    };
    let explained = |details: [Details; 3], change: fn(&mut NamespaceContents)| {
        let mut cluster =
            Cluster::of(&held.iter().chain([&namespace]).collect::<Vec<_>>()).read(&namespace, &[]);
        for (obj, details) in held.iter().zip(details) {
            let live = LiveObject { facts: obj.facts.clone(), details };
            cluster = cluster.reading(obj, Live::Found(Box::new(live)));
        }
        let objects = held.iter().map(|obj| (obj.identity(), obj.facts.deletion_state())).collect();
        let mut contents = NamespaceContents { objects, ..NamespaceContents::default() };
        change(&mut contents);
        cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &contents))
    };
    let backup = |times| read("backup-operator", &["example.com/backup"], times);
    // Another manager says nothing about this one.
    let other = read("other", &["example.com/backup"], ("2025-01-01T00:00:00Z", "2026-02-01T00:00:00Z"));
    let all = || [backup(times[0]), backup(times[1]), other.clone()];
    let answer = explained(all(), |_| ());
    assert_eq!(answer.advice, ["Look at backup-operator first. Nothing else blocks."]);
    let report = answer.namespace.unwrap();
    assert_eq!(report.held[0].first_set.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(report.held[0].last_write.as_deref(), Some("2026-01-03T00:00:00Z"));
    let condition = |kind: &str| NamespaceCondition { kind: kind.into(), message: String::new() };
    for (conditions, nothing_else) in [
        (vec![condition("NamespaceContentRemaining"), condition("NamespaceFinalizersRemaining")], true),
        (vec![condition("NamespaceDeletionContentFailure")], false),
    ] {
        let report = NamespaceReport { conditions, ..report.clone() };
        assert_eq!(report.is_held_by_one(), nothing_else, "{report:?}");
    }
    fn api() -> Unseen {
        Unseen { what: "a.example.com/v1".into(), why: "503".into() }
    }
    let silent = explained(all(), |contents| contents.silent_apis.push(api()));
    assert_eq!(silent.advice[0], "Look at backup-operator first.");
    let nothing = explained(all(), |contents| {
        *contents = NamespaceContents { silent_apis: vec![api()], ..NamespaceContents::default() };
    });
    assert!(nothing.verdict.ends_with("that can be listed; 1 part of the API does not answer."));
    // A second finalizer, and one whose remover is well known.
    let two = read("backup-operator", &["example.com/backup", "orphan"], times[0]);
    let two = explained([two, backup(times[0]), backup(times[1])], |_| ());
    assert_eq!(two.advice[0], "Look at backup-operator first.");
    let known = |times| read("kubectl", &["kubernetes.io/pvc-protection"], times);
    let known = explained([known(times[0]), known(times[0]), known(times[1])], |_| ());
    assert!(known.advice[0].ends_with("as soon as no pod uses the claim any more. Nothing else blocks."));
}

proptest! {
    /// Whatever happened before, a question sees what a worker sees, and queues nothing.
    #[test]
    fn a_question_sees_what_a_worker_sees(steps in histories::steps(true)) {
        let mut world = histories::played(&steps, 2);
        let universe: Vec<Obj> = histories::script(&steps).into_iter().map(|(_, obj, _)| obj).collect();
        for obj in &universe {
            let before = world.dump();
            let key = obj.key();
            let seen = world.partition_of(obj).inspect_object(&key);
            prop_assert_eq!(world.dump(), before);
            world.out.clear();
            if let Snapshot::Object(object) = world.snapshot_and_queue(obj) {
                prop_assert_eq!(seen.as_ref().map(precheck), Some(precheck(&object)));
            }
        }
    }
}
