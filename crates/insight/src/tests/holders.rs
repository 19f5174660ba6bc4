//! What an explanation says of finalizers, claims, namespaces and definitions, and what it advises.

use std::sync::Arc;

use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::{Catalog, GroupResource, ResourceType, ServedKind};

#[test]
fn what_blocks_an_object_of_a_definition_is_named() {
    let definition =
        obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com").terminating();
    let widget = obj("widgets.example.com", "ns", "w").foreground();
    let blocking = pod("p").blocking(&widget).terminating();
    let mut cluster = Cluster::of(&[&definition, &widget, &blocking])
        .read(&definition, &["customresourcecleanup.apiextensions.k8s.io"])
        .read(&widget, &["foregroundDeletion"])
        .read(&blocking, &["gone.example.net/x"]);
    let left = [(widget.identity(), widget.facts.deletion_state())];
    let explained = cluster.ask(|asker| explain_namespace(asker, &definition.identity(), &left));
    let report = explained.namespace.unwrap();
    assert_eq!(report.others, ["Widget/w waits for Pod/p (finalizer gone.example.net/x)"]);
    let advised = |begin: &str| explained.advice.iter().any(|advice| advice.starts_with(begin));
    assert!(advised("Finalizer gone.example.net/x: "), "{:?}", explained.advice);
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
        let objects: Vec<_> = left.iter().map(|obj| (obj.identity(), obj.facts.deletion_state())).collect();
        cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &objects))
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
    // What is left in it is named once, whatever it blocks besides.
    let blocks = inside.clone().blocking(&namespace);
    let once = explained(&[&namespace, &blocks], &[&blocks], &["foregroundDeletion"]);
    let said = "Namespace/old cannot go: 1 object is left, held by finalizer gone.example.net/y.";
    assert_eq!((&*once.verdict, once.held_by.len(), once.advice.len()), (said, 0, 2), "{once:?}");
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
        let explained = cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &objects));
        assert_eq!(explained.advice, [advice]);
    }
    let deleted = [(namespace.identity(), namespace.facts.deletion_state())];
    let report = cluster.ask(|asker| stuck(asker, &deleted, std::time::Duration::ZERO, |_| true));
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
    let advice = cluster.ask(|asker| explain_namespace(asker, &definition.identity(), &objects)).advice;
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

fn texts(advice: Vec<Advice>) -> Vec<String> {
    advice.into_iter().map(String::from).collect()
}

#[test]
fn who_removes_a_finalizer_is_said_as_far_as_it_is_certain() {
    let told = |name: &str, manager: Option<&str>| {
        let object = match name {
            "kubernetes.io/pvc-protection" => obj("persistentvolumeclaims", "ns", "c"),
            "external-attacher/ebs-csi-aws-com" => persistent_volume("c"),
            _ => config("c"),
        };
        let setter =
            |manager: &str| FinalizerSetter { finalizer: name.into(), manager: manager.into(), time: None };
        let setters = manager.map(setter).into_iter().collect();
        let finalizers = vec!["orphan".to_owned(), name.to_owned()];
        let details = Details { finalizers, setters, ..Details::default() };
        let (object, reports) =
            (object.identity(), FinalizerReport::of(&object.identity(), &details, catalog()));
        texts(reports[1].advice(&ObjectName::from(&object), 1))
    };
    let by_hand = |name: &str| {
        let of = if name.starts_with("external-") { "persistentvolumes c" } else { "configmaps c -n ns" };
        format!(
            "Removing {name} by hand skips its clean-up, and an object without other finalizers then goes, with what it \
             alone owns (`plan` names that). If nothing is left to clean up: kubectl patch {of} --type=json -p \
             \"$(kubectl get {of} -o json | jq -c \
             '.metadata.finalizers|index(\"{name}\") as $i|\"/metadata/finalizers/\\($i)\" as $path|\
             [{{op:\"test\",path:\"/metadata/uid\",value:\"c\"}},{{op:\"test\",$path,value:\"{name}\"}},\
             {{op:\"remove\",$path}}]')\""
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
            ", if it runs, removes it as soon as the volume has been detached. Is it still there?",
            true,
        ),
        // No API shows whether it runs.
        ("kopf.zalando.org/x", None, "daemons have ended. Is it still there?", true),
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
        let objects: Vec<_> = left.iter().map(|obj| (obj.identity(), obj.facts.deletion_state())).collect();
        let explained = cluster.ask(|asker| explain_namespace(asker, &of.identity(), &objects));
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
    assert!(
        texts(finalizer.advice(&of, 5))[1].contains("to clean up, for each object as for this one: kubectl")
    );
    let of = ObjectName::from(&obj("namespaces", "", "old").identity());
    let in_spec = texts(FinalizerReport { in_spec: true, ..finalizer.clone() }.advice(&of, 1));
    assert!(in_spec[0].starts_with("Finalizer one.example.net/x in the spec: "), "{in_spec:?}");
    let goes = " As soon as no finalizer is left in its spec and its metadata, a namespace that is being deleted goes, and \
                what is still in it stays in the store.";
    assert!(in_spec.len() == 1 && in_spec[0].ends_with(goes), "no command is safe: {in_spec:?}");
    let of = ObjectName { uid: "$(x)".into(), ..ObjectName::from(&item.identity()) };
    assert_eq!(finalizer.advice(&of, 1).len(), 1, "a shell would not take the uid as it is");
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
        let of_namespace = cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &objects));
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
        details.particulars =
            Particulars::Volume { claim: Some(("ns".into(), "data".into())), reclaim: None };
    });
    let verdict = cluster.explain(&volume).verdict;
    assert!(verdict.ends_with(": it is bound to PersistentVolumeClaim/data in namespace ns."), "{verdict}");
}

#[test]
fn who_holds_a_namespace_is_to_be_looked_at() {
    let namespace = obj("namespaces", "", "old").terminating();
    let held = ["a", "b", "c"].map(|name| config(name).terminating());
    let times = ["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"];
    let read = |manager: &str, finalizers: &[&str], time: &str| Details {
        finalizers: finalizers.iter().map(|&name| name.to_owned()).collect(),
        setters: vec![FinalizerSetter {
            finalizer: finalizers[0].to_owned(),
            manager: manager.to_owned(),
            time: Some(time.to_owned()),
        }],
        ..Details::default()
    };
    let explained = |details: [Details; 3], change: fn(&mut Outside, &mut Vec<_>)| {
        let mut cluster =
            Cluster::of(&held.iter().chain([&namespace]).collect::<Vec<_>>()).with(&namespace, |details| {
                let (finalizers, conditions) = (vec!["kubernetes".to_owned()], Vec::new());
                details.particulars = Particulars::Container { finalizers, conditions };
            });
        for (obj, details) in held.iter().zip(details) {
            let live = LiveObject { facts: obj.facts.clone(), details };
            cluster = cluster.reading(obj, Live::Found(Box::new(live)));
        }
        let mut left = held.iter().map(|obj| (obj.identity(), obj.facts.deletion_state())).collect();
        change(&mut cluster.outside, &mut left);
        cluster.ask(|asker| explain_namespace(asker, &namespace.identity(), &left))
    };
    let backup = |times| read("backup-operator", &["example.com/backup"], times);
    // Another manager says nothing about this one.
    let other = read("other", &["example.com/backup"], "2025-01-01T00:00:00Z");
    let all = || [backup(times[0]), backup(times[1]), other.clone()];
    let answer = explained(all(), |_, _| ());
    assert_eq!(
        answer.advice,
        ["Finalizer example.com/backup: look at backup-operator, which set it. Nothing else blocks."]
    );
    let report = answer.namespace.unwrap();
    assert_eq!(report.held[0].first_set.as_deref(), Some("2026-01-01T00:00:00Z"));
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
    let silent = explained(all(), |outside, _| outside.silent_apis.push(api()));
    assert!(silent.advice[0].ends_with("look at backup-operator, which set it."), "{silent:?}");
    let nothing = explained(all(), |outside, left| {
        outside.silent_apis.push(api());
        left.clear();
    });
    assert!(nothing.verdict.ends_with("but it waits for an API that does not answer: a.example.com/v1."));
    // Nothing could be listed.
    let unlisted = explained(all(), |outside, left| {
        outside.types.push(api());
        left.clear();
    });
    assert!(
        unlisted.verdict.ends_with(
            "nothing that was looked at is left in it, but it waits for the namespace controller of \
             kube-controller-manager or a collector with --finish-namespaces, or for what was not looked at."
        ),
        "{unlisted:?}"
    );
    assert_eq!(unlisted.outcome, Outcome::Unknown);
    let many = explained(all(), |_, left| *left = left.iter().cycle().take(150).cloned().collect());
    assert!(many.verdict.contains("150 objects are left, at least 100 held by finalizer"), "{many:?}");
    assert!(many.depends_on_unseen && many.namespace.unwrap().not_read == 50);
    // A second finalizer, and one whose remover is well known.
    let two = read("backup-operator", &["example.com/backup", "orphan"], times[0]);
    let two = explained([two, backup(times[0]), backup(times[1])], |_, _| ());
    assert!(two.advice[0].ends_with("look at backup-operator, which set it."), "{two:?}");
    let known = |times| read("kubectl", &["finalizers.fluxcd.io"], times);
    let known = explained([known(times[0]), known(times[0]), known(times[1])], |_, _| ());
    assert!(known.advice[0].contains("as soon as its clean-up has succeeded."), "{known:?}");
    assert!(known.advice[0].ends_with(" Nothing else blocks."), "{known:?}");
    let by_hand = explained(
        all().map(|details| Details {
            setters: vec![FinalizerSetter { manager: "kubectl-edit".into(), ..details.setters[0].clone() }],
            ..details
        }),
        |_, _| (),
    );
    assert!(by_hand.advice[0].contains("it was set with kubectl-edit"), "{by_hand:?}");
    let [one, _, other] = all();
    let apart = explained(
        [one, backup(times[1]), Details { finalizers: vec!["example.com/b".into()], ..other }],
        |_, _| (),
    );
    assert!(apart.verdict.contains("3 objects are left, all held by finalizers "), "{apart:?}");
}
