use std::sync::Arc;

use super::*;
use crate::judge::locate;
use kube_gc_core::graph::Snapshot;
use kube_gc_core::graph::testing::histories;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::{Catalog, GroupResource, OwnerReference, ResourceType, ServedKind, Uid};
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
            "Pod/p is garbage: its owner ConfigMap/a does not exist in namespace ns any more (another object has \
             that name now: new). The collector, if one runs, deletes it with the policy Background.",
        ),
        (
            Cluster::of(&[&a, &both]),
            &both,
            Outcome::LosesReferences,
            Some(Evidence::Watched),
            "Pod/p stays and loses 1 owner reference: its owner ConfigMap/a keeps it, and not every owner does.",
        ),
        (
            Cluster::of(&[&pod("p").with(unserved.clone())]),
            &pod("p"),
            Outcome::Undecided,
            Some(Evidence::NotServed { served_as: Some("example.com/v2".into()) }),
            "Pod/p stays for now, because nothing is proved: the server has no Widget of extensions/v9.",
        ),
    ] {
        let mut cluster = cluster;
        let explained = cluster.explain(item);
        assert_eq!((explained.outcome, explained.verdict.as_str()), (outcome, verdict));
        assert_eq!(explained.references.first().map(|reference| reference.evidence.clone()), evidence);
        assert!(!explained.depends_on_unseen, "reading more would not help");
    }
    let explained = Cluster::of(&[&item]).reading(&a, Live::Failed("not allowed".into())).explain(&item);
    assert_eq!((explained.outcome, explained.depends_on_unseen), (Outcome::Unknown, true));
    let unknown = "It is not known whether Pod/p stays: its owner ConfigMap/a cannot be read: not allowed.";
    assert_eq!(explained.verdict, unknown);
}

/// A change of the reference decides by the owner that it then names.
#[test]
fn a_version_is_advised_only_if_the_owner_is_there() {
    let widget = obj("widgets.example.com", "ns", "w");
    let of = |kind: &str| OwnerReference {
        api_version: "example.com/v9".into(),
        kind: kind.into(),
        ..widget.reference()
    };
    let refused = "A reference to that version would not keep Pod/p, and could let the collector delete it: to keep \
                   it, remove the owner reference.";
    let taken = Live::Absent(AbsenceEvidence::OtherUid(Uid::parse("new").unwrap()));
    let read = |live| Cluster::of(&[&pod("p").with(of("Widget"))]).reading(&widget, live);
    let dying = widget.clone().foreground();
    for (mut cluster, advised) in [
        (
            Cluster::of(&[&pod("p").with(of("Widget")), &widget]),
            "Change the owner reference to Widget/w: the server has this kind in example.com/v2.".to_owned(),
        ),
        (
            Cluster::of(&[&pod("p").with(of("Widget"))]).known(&[&widget]),
            "Change the owner reference to Widget/w: the server has this kind in example.com/v2.".to_owned(),
        ),
        (read(taken), format!("no object of that name and uid is there. {refused}")),
        (
            read(Live::Absent(AbsenceEvidence::NotFound)),
            format!("no object of that name and uid is there. {refused}"),
        ),
        (read(Live::Failed("403".into())), format!("it is not known whether it is there. {refused}")),
        (
            Cluster::of(&[&pod("p").with(of("Widget")), &dying]),
            format!("it is being deleted there. {refused}"),
        ),
        (
            Cluster::of(&[&pod("p").with(of("Widgit"))]),
            "Correct the kind Widgit of Widget/w, install it in example.com/v9 again, or remove the owner reference."
                .replace("Widget/w", "Widgit/w"),
        ),
    ] {
        let advice = cluster.explain(&pod("p")).advice;
        assert!(advice.len() == 1 && advice[0].ends_with(&advised), "{advice:?}, not {advised}");
    }
}

/// Another deletion of the owner takes away the finalizer that lets the dependents go free.
#[test]
fn who_deletes_an_owner_again_that_releases_its_dependents_is_warned() {
    let (owner, other) = (config("a").orphaning(), config("b"));
    let item = pod("p").owned(&owner).owned(&other);
    let warning = "Do not delete ConfigMap/a again before its dependents are released: any deletion without \
                   --cascade=orphan lets the collector delete those that no other owner keeps.";
    let happens = "ConfigMap/a is being deleted with the policy Orphan: the collector, if one runs, releases its \
                   dependents first.";
    let all = [&owner, &other, &item];
    for mut cluster in [Cluster::of(&all), Cluster::of(&[]).known(&all)] {
        for (obj, verdict) in
            [(&item, format!("Pod/p stays: its 2 owners exist. {happens}")), (&owner, happens.to_owned())]
        {
            let explained = cluster.explain(obj);
            assert_eq!((explained.verdict, explained.advice), (verdict, vec![warning.to_owned()]));
        }
    }
}

/// What blocks it need not be in it.
#[test]
fn what_blocks_a_namespace_from_outside_is_named() {
    let namespace = obj("namespaces", "", "old").foreground();
    let blocking = |name: &str| obj("configmaps", "other", name).blocking(&namespace).terminating();
    let (outside, inside) = (blocking("bl"), obj("configmaps", "old", "in").terminating());
    let explained = |all: &[&Obj], left: &[&Obj], finalizers: &[&str]| {
        let mut cluster = Cluster::of(all).read(&outside, &["gone.example.net/x"]);
        cluster = cluster.read(&inside, &["gone.example.net/y"]).read(&namespace, finalizers);
        let objects = left.iter().map(|obj| (obj.identity(), obj.facts.deletion_state())).collect();
        let contents = NamespaceContents { objects, is_all: true, ..NamespaceContents::default() };
        cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &contents))
    };
    let of = |what: &str| {
        format!("Namespace/old is being deleted: nothing is left in it, but it waits for {what}.")
    };
    let blocked = explained(&[&namespace, &outside], &[], &["foregroundDeletion"]);
    assert_eq!(blocked.verdict, of("ConfigMap/bl (finalizer gone.example.net/x)"));
    assert_eq!((blocked.held_by.len(), blocked.held_by[0].cause), (1, Hold::Finalizers));
    assert!(blocked.advice[0].starts_with("Finalizer gone.example.net/x: "), "{blocked:?}");
    assert!(blocked.advice[1].contains("kubectl patch configmaps bl -n other "), "{blocked:?}");
    let both = explained(&[&namespace, &outside, &inside], &[&inside], &["foregroundDeletion"]);
    let said = "held by finalizer gone.example.net/y; it also waits for ConfigMap/bl (finalizer gone.example.net/x).";
    assert!(both.verdict.ends_with(said), "{both:?}");
    assert!(!both.advice[0].contains("Nothing else blocks"), "{both:?}");
    let free = explained(&[&namespace], &[], &["foregroundDeletion"]);
    assert_eq!(free.verdict, of("the collector to remove its finalizer"));
}

/// It has the words of the API server.
#[test]
fn a_condition_that_says_why_is_to_be_repaired() {
    let namespace = obj("namespaces", "", "ns").terminating();
    let widget = obj("widgets.example.com", "ns", "w");
    let condition =
        |kind: &str, message: &str| NamespaceCondition { kind: kind.into(), message: message.into() };
    let mut cluster = Cluster::of(&[&namespace, &widget]).with(&namespace, |details| {
        let conditions = vec![
            condition("NamespaceContentRemaining", "1 left"),
            condition("NamespaceDeletionContentFailure", "failed calling webhook"),
        ];
        details.particulars =
            Particulars::Container { finalizers: vec!["kubernetes".to_owned()], conditions };
    });
    for (objects, advice) in [
        (
            vec![(widget.identity(), widget.facts.deletion_state())],
            "1 object is not deleted yet: repair what the condition NamespaceDeletionContentFailure reports.",
        ),
        (Vec::new(), "Repair what the condition NamespaceDeletionContentFailure reports."),
    ] {
        let contents = NamespaceContents { objects, is_all: true, ..NamespaceContents::default() };
        let explained = cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &contents));
        assert_eq!(explained.advice, [advice]);
    }
    let deleted = [(namespace.identity(), namespace.facts.deletion_state())];
    let report = cluster.ask(|asker| stuck(asker, &deleted, &StuckContext::default(), |_| true));
    let said = "Namespace/ns waits for what the condition NamespaceDeletionContentFailure reports: failed calling webhook";
    assert_eq!(report.groups[0].sentence, said);
}

/// What blocks those objects is of other types.
#[test]
fn the_objects_of_a_definition_that_wait_for_dependents_are_to_be_explained() {
    let definition =
        obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com").terminating();
    let widget = obj("widgets.example.com", "ns", "w").foreground();
    let mut cluster = Cluster::of(&[&definition, &widget])
        .read(&widget, &["foregroundDeletion"])
        .read(&definition, &["customresourcecleanup.apiextensions.k8s.io"]);
    let objects = vec![(widget.identity(), widget.facts.deletion_state())];
    let contents = NamespaceContents { objects, is_all: true, ..NamespaceContents::default() };
    let advice = cluster.ask(|asker| explain_namespace(asker, &definition.identity(), &contents)).advice;
    assert!(advice[0].contains(" `explain` of Widget/w says which do."), "{advice:?}");
}

/// A volume, which the catalog of these tests does not have.
fn persistent_volume(name: &str) -> Obj {
    let resource = ResourceType {
        group_resource: GroupResource::new("", "persistentvolumes"),
        ..ResourceType::clone(&resource("nodes"))
    };
    Obj { resource: Arc::new(resource), ..node(name) }
}

#[test]
fn what_only_owners_keep_that_go_is_said_to_stay_for_now() {
    let (gone, dying, live) = (config("gone"), config("dying").terminating(), config("live"));
    let garbage = config("garbage").owned(&gone);
    let below = config("below").owned(&garbage);
    let releasing = config("releasing").owned(&gone).with_finalizers(false, true);
    for (item, outcome, verdict) in [
        (
            pod("p").owned(&dying),
            Outcome::StaysForNow,
            "at most as long as ConfigMap/dying exists, which is being deleted.",
        ),
        (
            pod("p").owned(&below),
            Outcome::StaysForNow,
            "at most as long as ConfigMap/garbage exists, which is garbage.",
        ),
        (
            pod("p").owned(&garbage).owned(&dying),
            Outcome::StaysForNow,
            "at most as long as ConfigMap/garbage exists, which is garbage, or ConfigMap/dying exists, which is being \
             deleted.",
        ),
        (pod("p").owned(&garbage).owned(&live), Outcome::Stays, "its 2 owners exist."),
        (pod("p").owned(&releasing), Outcome::Stays, "its owner ConfigMap/releasing exists."),
    ] {
        let all = [&dying, &live, &garbage, &below, &releasing, &item];
        // Whether lists or live reads show them.
        for mut cluster in [Cluster::of(&all), Cluster::of(&[]).known(&all)] {
            let explained = cluster.explain(&item);
            let verdict =
                format!("Pod/p stays{} {verdict}", if outcome == Outcome::Stays { ":" } else { "" });
            assert_eq!((explained.outcome, explained.verdict), (outcome, verdict));
        }
    }
    let mut explained = Cluster::of(&[&live]).explain(&live);
    assert!(explained.is_kept());
    explained.stays_for_now("namespace ns exists, which is being deleted");
    let verdict = "ConfigMap/live stays at most as long as namespace ns exists, which is being deleted.";
    assert_eq!((explained.outcome, &*explained.verdict), (Outcome::StaysForNow, verdict));
}

#[test]
fn no_dependent_blocks_a_deletion_only_if_all_were_looked_at() {
    let root = config("root").foreground();
    for (missing, outcome, says) in [
        (Vec::new(), Outcome::Goes, "no dependent blocks it: "),
        (
            vec![Unseen { what: "pods".into(), why: "403".into() }],
            Outcome::Unknown,
            "It is not known whether dependents block it",
        ),
    ] {
        let explained = Cluster::of(&[&root]).read(&root, &["foregroundDeletion"]).explain(&root);
        let known = Knowledge::new(Outside { types: missing, ..Outside::default() });
        let report = Answer::new(explained, &known, Vec::new(), 0).report;
        assert_eq!(report.outcome, outcome);
        assert!(report.verdict.contains(says), "{report:?}");
    }
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
    assert_eq!((explained.outcome, explained.depends_on_unseen), (Outcome::Unknown, true));
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
fn who_removes_a_finalizer_is_said_as_far_as_it_is_certain() {
    let told = |name: &str, manager: Option<&str>| {
        let object = match name {
            "kubernetes.io/pvc-protection" => obj("persistentvolumeclaims", "ns", "c"),
            "external-attacher/ebs-csi-aws-com" => persistent_volume("c"),
            _ => config("c"),
        };
        let setter = |manager: &str| FinalizerSetter {
            finalizer: name.into(),
            manager: manager.into(),
            time: None,
            last_write: None,
        };
        let setters = manager.map(setter).into_iter().collect();
        let finalizers = vec!["orphan".to_owned(), name.to_owned()];
        let details = Details { finalizers, setters, ..Details::default() };
        let (object, reports) =
            (object.identity(), FinalizerReport::of(&object.identity(), &details, catalog()));
        reports[1].advice(&ObjectName::from(&object), 1)
    };
    let by_hand = |name: &str| {
        format!(
            "Removing {name} by hand skips its clean-up. If nothing is left to clean up: kubectl patch configmaps c -n \
             ns --type=json -p \"$(kubectl get configmaps c -n ns -o json | jq -c \
             '.metadata.finalizers|index(\"{name}\") as $i|\"/metadata/finalizers/\\($i)\" as $path|\
             [{{op:\"test\",$path,value:\"{name}\"}},{{op:\"remove\",$path}}]')\""
        )
    };
    let (served, gone) = ("a.example.com/x", "gone.example.net/x");
    for (name, manager, says, is_by_hand) in [
        (
            "kubernetes.io/pvc-protection",
            Some("kubectl"),
            "removes it as soon as no pod uses the claim any more.",
            false,
        ),
        (
            "external-attacher/ebs-csi-aws-com",
            None,
            "removes it as soon as the volume has been detached.",
            false,
        ),
        ("wrangler.cattle.io/x", None, "its clean-up has succeeded. But the server has none", true),
        ("kubernetes.io/unknown", None, "look at the controller that sets it.", false),
        (served, Some("backup"), "look at backup, which set it.", false),
        (served, Some("kubectl-edit"), "it was set with kubectl-edit, which does not remove it.", false),
        (
            gone,
            Some("Helm"),
            "set with Helm, and no installed API belongs to gone.example.net, so probably nobody",
            true,
        ),
        (gone, Some("helm-operator"), "helm-operator set it, and the server has no API of its domain.", true),
        (gone, Some("backup"), "backup set it, and the server has no API of its domain.", true),
        // Others than those that they are for keep them.
        ("kubernetes", None, "it is for the spec of namespaces, so probably nobody", true),
        ("kubernetes.io/pv-protection", Some("backup"), "it is for persistentvolumes, so probably", true),
        ("batch.kubernetes.io/job-tracking", None, "it is for pods, so probably nobody", true),
        ("gone.example.net/$(x)", None, "the server has no API of its domain.", false),
    ] {
        let advice = told(name, manager);
        assert!(
            advice[0].starts_with(&format!("Finalizer {name}: ")) && advice[0].contains(says),
            "{advice:?}"
        );
        assert_eq!(advice[1..], is_by_hand.then(|| by_hand(name)).into_iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn who_has_to_delete_what_is_left_is_said() {
    let (namespace, widget) = (obj("namespaces", "", "ns"), obj("widgets.example.com", "ns", "w"));
    let definition = obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com");
    let held = pod("held").terminating().held();
    for (of, left, said) in [
        (&namespace, vec![&widget], ". If that does not change, look at the namespace controller of"),
        (&namespace, vec![&widget, &held], ": pods go first, and Pod/held is still there."),
        (
            &definition,
            vec![&widget],
            ". If that does not change, look at the API server, which deletes them.",
        ),
    ] {
        let of = of.clone().terminating();
        let mut cluster = Cluster::of(&[&of, &widget, &held]).with(&of, |_| ());
        let objects = left.iter().map(|obj| (obj.identity(), obj.facts.deletion_state())).collect();
        let contents = NamespaceContents { objects, is_all: true, ..NamespaceContents::default() };
        let explained = cluster.ask(|asker| explain_namespace(asker, &of.identity(), &contents));
        let said = format!("1 object is not deleted yet{said}");
        assert!(explained.advice.iter().any(|advice| advice.starts_with(&said)), "{explained:?}");
    }
}

#[test]
fn an_api_of_kubernetes_is_not_that_of_a_project_below_it() {
    let mut catalog = Catalog::builder();
    for group in ["storage.k8s.io", "example.com", "cluster.x-k8s.io"] {
        let group_resource = GroupResource::new(group, "things");
        let resource =
            ResourceType { group_resource, ..ResourceType::clone(&resource("things.example.com")) };
        catalog.add(ServedKind { version: "v1".into(), resource: Arc::new(resource) });
    }
    let catalog = catalog.build();
    let claims = GroupResource::new("", "persistentvolumeclaims");
    let served = |name: &str| FinalizerReport::named(name, Some(&claims), &catalog).api_is_served;
    let protection = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
    assert_eq!([served(protection), served("a.example.com/x")], [Some(false), Some(true)]);
    // Every cluster has groups in this domain.
    assert_eq!(["k8s.io/abc", "x-k8s.io/abc", "abc.k8s.io/x"].map(served), [None, None, Some(false)]);
}

#[test]
fn commands_fit_each_object_and_say_of_how_many() {
    let item = config("c").terminating();
    let names = ["one.example.net/x", "two.example.net/x"];
    let advice = Cluster::of(&[&item]).read(&item, &names).explain(&item).advice;
    let commands: Vec<_> = advice.iter().filter(|line| line.contains("kubectl patch")).collect();
    // Each finds the place, which another object, or this one a moment later, does not share.
    assert!(commands[0].contains("index(\"one.") && commands[1].contains("index(\"two."), "{advice:?}");
    assert_eq!(commands.len(), 2, "{advice:?}");
    let of = ObjectName::from(&item.identity());
    let finalizer = FinalizerReport::named(names[0], None, catalog());
    assert!(finalizer.advice(&of, 5)[1].contains("to clean up, for each object as for this one: kubectl"));
    let of = ObjectName::from(&obj("namespaces", "", "old").identity());
    let in_spec = FinalizerReport { in_spec: true, ..finalizer }.advice(&of, 1);
    assert!(in_spec[0].starts_with("Finalizer one.example.net/x in the spec: "), "{in_spec:?}");
    assert!(
        in_spec[1].ends_with("kubectl replace --raw /api/v1/namespaces/old/finalize -f -"),
        "{in_spec:?}"
    );
}

/// Of the object itself, of what blocks it, and of what is left in its namespace.
#[test]
fn what_is_advised_about_many_finalizers_is_counted() {
    let root = config("root").foreground();
    let (item, namespace) =
        (config("c").blocking(&root).terminating(), obj("namespaces", "", "ns").terminating());
    for (count, rest) in
        [(14, None), (16, None), (17, Some("And 1 more finalizer.")), (20, Some("And 4 more finalizers."))]
    {
        let names: Vec<String> = (0..count).map(|number| format!("f{number}.example.net/x")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut cluster = Cluster::of(&[&root, &item, &namespace]).read(&item, &names);
        cluster = cluster.read(&root, &["foregroundDeletion"]).read(&namespace, &[]);
        let objects = vec![(item.identity(), item.facts.deletion_state())];
        let contents = NamespaceContents { objects, is_all: true, ..NamespaceContents::default() };
        let of_namespace = cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &contents));
        for explained in [cluster.explain(&item), cluster.explain(&root), of_namespace] {
            let advice = explained.advice;
            let told = advice.iter().filter(|line| line.starts_with("Finalizer ")).count();
            assert_eq!(told, count.min(16), "{advice:?}");
            assert_eq!(
                advice.iter().find(|line| line.starts_with("And ")).map(String::as_str),
                rest,
                "{advice:?}"
            );
        }
    }
}

#[test]
fn what_protects_a_claim_or_a_volume_is_named() {
    let claim = obj("persistentvolumeclaims", "ns", "data").terminating();
    let mut cluster = Cluster::of(&[&claim]).read(&claim, &["kubernetes.io/pvc-protection"]);
    let verdict = "PersistentVolumeClaim/data is being deleted, and waits for finalizer \
                   kubernetes.io/pvc-protection: Pod/user uses it.";
    assert_eq!(cluster.explain(&claim).verdict, verdict);
    let volume = persistent_volume("volume").terminating();
    let mut cluster = Cluster::of(&[&volume]).with(&volume, |details| {
        details.finalizers = vec!["kubernetes.io/pv-protection".to_owned()];
        details.particulars = Particulars::Volume { claim: Some(("ns".into(), "data".into())) };
    });
    let verdict = cluster.explain(&volume).verdict;
    assert!(verdict.ends_with(": it is bound to PersistentVolumeClaim/data in namespace ns."), "{verdict}");
}

#[test]
fn an_explanation_rests_on_the_types_of_the_object_and_of_its_owners() {
    let (owner, item) = (config("a"), pod("p").owned(&config("a")));
    for (what, rests) in [("pods", true), ("configmaps", true), ("namespaces", false)] {
        let explained = Cluster::of(&[&owner, &item]).explain(&item);
        let types = vec![Unseen { what: what.into(), why: "the watch is broken".into() }];
        let known = Knowledge::new(Outside { types, ..Outside::default() });
        let answer = Answer::new(explained, &known, Vec::new(), 0);
        assert_eq!(
            (answer.report.depends_on_unseen, answer.incomplete.len()),
            (rests, usize::from(rests)),
            "{what}"
        );
    }
}

#[test]
fn an_owner_in_another_namespace_is_found_by_its_uid() {
    let owner = obj("configmaps", "other", "shared");
    let item = pod("p").with(owner.reference());
    let verdict = Cluster::of(&[&owner, &item]).explain(&item).verdict;
    let says = "its owner ConfigMap/shared does not exist in namespace ns (owners must be in the dependent's \
                namespace; the uid is that of other/shared).";
    assert!(verdict.contains(says), "{verdict}");
    let another = obj("configmaps", "other", "another");
    let both = item.with(another.reference());
    let verdict = Cluster::of(&[&owner, &another, &both]).explain(&both).verdict;
    let both = "none of its 2 owners exists: its owner ConfigMap/shared does not exist in";
    assert!(verdict.contains(both) && verdict.contains("the uid is that of other/shared)"), "{verdict}");
}

/// A graph remembers that an owner is gone, and not what else has its name.
#[test]
fn who_has_the_name_of_an_owner_that_was_absent_is_said() {
    let (owner, item) = (config("a"), pod("p").owned(&config("a")));
    let taken = Live::Absent(AbsenceEvidence::OtherUid(Uid::parse("new").unwrap()));
    for (live, evidence) in [
        (taken, Evidence::OtherUid { uid: "new".into() }),
        (Live::Absent(AbsenceEvidence::NotFound), Evidence::Remembered),
        (Live::Failed("not allowed".into()), Evidence::Remembered),
    ] {
        let mut judged = Cluster::of(&[&item]).explain(&item).references;
        judged[0].identity = Some(owner.identity());
        judged[0].evidence = Evidence::Remembered;
        let seen = Cluster::of(&[&item]).reading(&owner, live).ask(|asker| {
            let mut judged = judged.clone();
            locate(asker, &mut judged);
            judged.swap_remove(0).evidence
        });
        assert_eq!(seen, evidence);
    }
}

#[test]
fn what_the_api_server_refuses_is_tried_and_does_not_go() {
    let (item, root) = (pod("p").owned(&config("gone")), config("root").foreground());
    let of_collector = |mut cluster: Cluster, obj| {
        cluster.outside.source = Source::Collector;
        cluster.explain(obj)
    };
    let unblocked = Cluster::of(&[&root]).read(&root, &["foregroundDeletion"]);
    for (mut explained, said) in [
        (
            of_collector(Cluster::of(&[&item]), &item),
            "Pod/p is garbage: its owner ConfigMap/gone does not exist in namespace ns. The collector tries to delete \
             it, and the API server refuses it: not today.",
        ),
        (
            of_collector(Cluster::of(&[&item]).read(&item, &["example.com/a"]), &item),
            "Pod/p is garbage: its owner ConfigMap/gone does not exist in namespace ns. The collector tries to delete \
             it, and the API server refuses it: not today.",
        ),
        (
            of_collector(unblocked, &root),
            "ConfigMap/root is being deleted, and no dependent blocks it: the collector removes the finalizer \
             foregroundDeletion, and then it is gone. The collector tries to do that, and the API server refuses it: \
             not today.",
        ),
    ] {
        assert_eq!(explained.outcome, Outcome::Goes);
        explained.is_tried("and the API server refuses it", "not today");
        assert_eq!((explained.outcome, &*explained.verdict), (Outcome::Waits, said));
    }
}

#[test]
fn who_holds_a_namespace_is_to_be_looked_at() {
    let namespace = obj("namespaces", "", "old").terminating();
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
            Cluster::of(&held.iter().chain([&namespace]).collect::<Vec<_>>()).with(&namespace, |details| {
                let (finalizers, conditions) = (vec!["kubernetes".to_owned()], Vec::new());
                details.particulars = Particulars::Container { finalizers, conditions };
            });
        for (obj, details) in held.iter().zip(details) {
            let live = LiveObject { facts: obj.facts.clone(), details };
            cluster = cluster.reading(obj, Live::Found(Box::new(live)));
        }
        let objects = held.iter().map(|obj| (obj.identity(), obj.facts.deletion_state())).collect();
        let mut contents = NamespaceContents { objects, is_all: true, ..NamespaceContents::default() };
        change(&mut contents);
        cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &contents))
    };
    let backup = |times| read("backup-operator", &["example.com/backup"], times);
    // Another manager says nothing about this one.
    let other = read("other", &["example.com/backup"], ("2025-01-01T00:00:00Z", "2026-02-01T00:00:00Z"));
    let all = || [backup(times[0]), backup(times[1]), other.clone()];
    let answer = explained(all(), |_| ());
    assert_eq!(
        answer.advice,
        ["Finalizer example.com/backup: look at backup-operator, which set it. Nothing else blocks."]
    );
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
    assert!(silent.advice[0].ends_with("look at backup-operator, which set it."), "{silent:?}");
    let nothing = explained(all(), |contents| {
        *contents = NamespaceContents { silent_apis: vec![api()], ..NamespaceContents::default() };
    });
    assert!(nothing.verdict.ends_with("but it waits for an API that does not answer: a.example.com/v1."));
    // Nothing could be listed.
    let unlisted = explained(all(), |contents| *contents = NamespaceContents::default());
    assert!(
        unlisted.verdict.ends_with(
            "nothing is left in it that can be listed, but it waits for the namespace controller of \
             kube-controller-manager or a collector with --finish-namespaces, or for what could not be listed."
        ),
        "{unlisted:?}"
    );
    assert_eq!(unlisted.outcome, Outcome::Unknown);
    let many = explained(all(), |contents| {
        let all: Vec<_> = contents.objects.iter().cycle().take(150).cloned().collect();
        contents.objects = all;
    });
    assert!(many.verdict.contains("150 objects are left, at least 100 held by finalizer"), "{many:?}");
    assert!(many.depends_on_unseen && many.namespace.unwrap().not_read == 50);
    // A second finalizer, and one whose remover is well known.
    let two = read("backup-operator", &["example.com/backup", "orphan"], times[0]);
    let two = explained([two, backup(times[0]), backup(times[1])], |_| ());
    assert!(two.advice[0].ends_with("look at backup-operator, which set it."), "{two:?}");
    let known = |times| read("kubectl", &["finalizers.fluxcd.io"], times);
    let known = explained([known(times[0]), known(times[0]), known(times[1])], |_| ());
    assert!(known.advice[0].contains("as soon as its clean-up has succeeded."), "{known:?}");
    assert!(known.advice[0].ends_with(" Nothing else blocks."), "{known:?}");
    let by_hand = explained(
        all().map(|details| Details {
            setters: vec![FinalizerSetter { manager: "kubectl-edit".into(), ..details.setters[0].clone() }],
            ..details
        }),
        |_| (),
    );
    assert!(by_hand.advice[0].contains("it was set with kubectl-edit"), "{by_hand:?}");
    assert_eq!(by_hand.namespace.unwrap().held[0].last_write, None);
    let [one, _, other] = all();
    let apart = explained(
        [one, backup(times[1]), Details { finalizers: vec!["example.com/b".into()], ..other }],
        |_| (),
    );
    assert!(apart.verdict.contains("3 objects are left, all held by finalizers "), "{apart:?}");
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

/// What a dry run has to do is not done.
#[test]
fn a_dry_run_does_not_do_what_it_says() {
    let (owner, unblocked) = (config("o"), config("u").foreground());
    let (garbage, kept) = (config("g").owned(&config("gone")), config("k").owned(&owner));
    let loses = config("l").owned(&config("gone")).owned(&owner);
    for (source, is_said) in [(Source::Lists, false), (Source::Collector, false), (Source::DryRun, true)] {
        let mut cluster =
            Cluster::of(&[&owner, &garbage, &kept, &loses]).read(&unblocked, &["foregroundDeletion"]);
        cluster.outside.source = source;
        for obj in [&garbage, &unblocked, &loses] {
            assert_eq!(
                cluster.explain(obj).verdict.contains(" would "),
                is_said,
                "{:?}",
                cluster.explain(obj)
            );
        }
        assert!(!cluster.explain(&kept).verdict.contains(" would "));
    }
}
