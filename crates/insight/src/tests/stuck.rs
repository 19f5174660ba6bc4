use std::time::Duration;

use proptest::prelude::*;

use super::*;
use kube_gc_core::graph::SearchQuery;
use kube_gc_core::graph::testing::world::*;

/// [`Cluster::read`] says that objects were deleted a minute ago.
const MINUTE: Duration = Duration::from_secs(60);
/// Less than that.
const NOW: Duration = Duration::from_secs(59);

fn report(cluster: &mut Cluster, older: Duration, is_meant: impl Fn(&Identity) -> bool) -> StuckReport {
    let deleted = cluster.graph.search(&SearchQuery { being_deleted: true, ..SearchQuery::default() });
    cluster.ask(|asker| stuck(asker, &deleted, older, &is_meant))
}

fn cluster(objects: &[(&Obj, &[&str])]) -> Cluster {
    let all: Vec<&Obj> = objects.iter().map(|(obj, _)| *obj).collect();
    objects.iter().fold(Cluster::of(&all), |cluster, (obj, finalizers)| cluster.read(obj, finalizers))
}

fn sentences(report: &StuckReport) -> Vec<&str> {
    report.groups.iter().map(|group| group.sentence.as_str()).collect()
}

/// `tests/insight/truth_causes.rs` shows each cause.
#[test]
fn what_is_not_meant_holds_others_and_is_not_counted() {
    let top = config("top").foreground();
    let held = config("receipt").blocking(&top).terminating();
    let other = config("other").terminating();
    let mut cluster = cluster(&[
        (&top, &["foregroundDeletion"]),
        (&held, &["example.com/a"]),
        (&other, &["example.com/b"]),
    ]);
    let report = report(&mut cluster, NOW, |identity| &*identity.name == "top");
    assert_eq!(sentences(&report), ["ConfigMap/top waits for ConfigMap/receipt (finalizer example.com/a)"]);
    assert_eq!((report.groups[0].holders.len(), report.groups[0].holder_count), (0, 0));
    assert_eq!(report.advice, ["`explain` of ConfigMap/receipt says what to do."]);
    assert_eq!((report.stuck, report.being_deleted, report.groups[0].object_count), (1, 1, 1));
}

#[test]
fn nothing_is_to_be_done_about_a_grace_period() {
    let top = config("top").foreground();
    let below = pod("p").blocking(&top).terminating();
    let cluster = Cluster::of(&[&top, &below]).read(&top, &["foregroundDeletion"]);
    let report = report(&mut cluster.with(&below, |details| details.grace = 3600), NOW, |_| true);
    assert_eq!(sentences(&report), ["ConfigMap/top waits for Pod/p (the end of its grace period)"]);
    assert_eq!((report.groups[0].holder_count, report.advice), (0, Vec::new()));
}

/// What is in it is not being deleted, and finalizers in the metadata hold it before that.
#[test]
fn a_namespace_without_finalizers_in_its_spec_waits_for_another_deletion() {
    let gone = obj("namespaces", "", "ns").terminating();
    for (finalizers, waits) in [
        (&[][..], "another deletion, which removes it and leaves in the store what is in it"),
        (&["example.com/x"], "finalizer example.com/x"),
    ] {
        let mut cluster = Cluster::of(&[&gone, &config("inside")]).with(&gone, |details| {
            details.finalizers = finalizers.iter().map(|&name| name.to_owned()).collect();
            let finalizers = Vec::new();
            details.particulars = Particulars::Container { finalizers, conditions: Vec::new() };
        });
        assert_eq!(
            sentences(&report(&mut cluster, NOW, |_| true)),
            [format!("Namespace/ns waits for {waits}")]
        );
    }
}

/// Objects that wait for the same finalizer are one group, unless they hold different namespaces.
#[test]
fn a_namespace_waits_only_for_what_is_in_it() {
    let gone = |name: &str| obj("namespaces", "", name).terminating();
    let held = |namespace: &str, name: &str| obj("configmaps", namespace, name).terminating();
    let report_of = |all: &[Obj]| {
        let finalizers: &[&str] = &["gone.example.net/c"];
        let of = |obj: &Obj| if obj.facts.namespace.is_some() { finalizers } else { &[] };
        let objects: Vec<_> = all.iter().map(|obj| (obj, of(obj))).collect();
        report(&mut cluster(&objects), NOW, |_| true)
    };
    let others = ["a", "b"].map(|name| held("other", name));
    let mut all: Vec<Obj> = others.into_iter().chain([gone("ns"), held("ns", "held")]).collect();
    let inside = "Namespace/ns waits for ConfigMap/held (finalizer gone.example.net/c)";
    assert_eq!(sentences(&report_of(&all)), ["2 objects wait for finalizer gone.example.net/c", inside]);
    all.push(gone("other"));
    let report = report_of(&all);
    let such = "2 objects, such as ConfigMap/a, wait for finalizer gone.example.net/c; Namespace/other waits for them";
    assert_eq!(sentences(&report), [such, inside]);
    // Each command is below its finalizer, and is about an object of its group.
    for (group, name) in report.groups.iter().zip(["configmaps a -n other", "configmaps held -n ns"]) {
        let [first, by_hand] = &group.advice[..] else { panic!("{group:?}") };
        let [first, by_hand] = [first, by_hand].map(|advice| String::from(advice.clone()));
        assert!(first.starts_with("Finalizer gone.example.net/c: ") && by_hand.contains(name), "{by_hand}");
    }
    // That of the first stands for all.
    let [_, by_hand] = &report.advice[..] else { panic!("{report:?}") };
    let command = ", for each object as for this one: kubectl patch configmaps a -n other ";
    assert!(by_hand.contains(command), "{by_hand}");
    // Of very many, some are told together.
    all.extend((0..40).flat_map(|number| {
        let name = format!("n{number:02}");
        [gone(&name), held(&name, &format!("in-{name}"))]
    }));
    let report = report_of(&all);
    let counted = report.groups.iter().map(|group| group.object_count).sum::<usize>();
    assert_eq!((report.groups.len(), report.stuck, counted), (33, 85, 85));
}

/// Some of each namespace are read, whichever has most.
#[test]
fn no_namespace_pushes_out_another() {
    let mut all: Vec<Obj> =
        (0..9).map(|number| obj("configmaps", "many", &format!("c{number}")).terminating()).collect();
    all.push(obj("configmaps", "other", "c").terminating());
    let finalizers: &[&str] = &["example.com/a"];
    let mut cluster = cluster(&all.iter().map(|obj| (obj, finalizers)).collect::<Vec<_>>());
    let deleted = cluster.graph.search(&SearchQuery { being_deleted: true, ..SearchQuery::default() });
    let report = cluster.ask_with(2, |asker| stuck(asker, &deleted, NOW, |_| true));
    let group = report.groups.iter().find(|group| group.cause == "finalizers").unwrap();
    let mut namespaces: Vec<_> = group.objects.iter().map(|name| name.namespace.clone().unwrap()).collect();
    namespaces.sort();
    assert_eq!((namespaces, report.not_read), (vec!["many".to_owned(), "other".to_owned()], 8));
}

/// What the collector has to do and cannot is said where others wait for it, and nowhere else.
#[test]
fn what_the_collector_cannot_finish_is_named_once() {
    let root = config("root").foreground();
    let (below, alone) = (pod("below").blocking(&root), pod("alone"));
    let mut cluster = cluster(&[(&root, &["foregroundDeletion"]), (&below, &[]), (&alone, &[])]);
    cluster.outside.source = Source::Collector;
    let mut report = report(&mut cluster, NOW, |_| true);
    assert_eq!(report.groups[0].advice, [Source::Collector.advice()]);
    let objects = [(below.identity(), "not today".to_owned()), (alone.identity(), "never".to_owned())];
    report.add_unfinished(("denied", "ask"), &objects, "2026-01-01T00:00:00Z".to_owned());
    assert_eq!(
        sentences(&report),
        [
            "ConfigMap/root waits for Pod/below, which the collector has to delete",
            "Pod/alone: the collector cannot finish with it (denied): never",
        ]
    );
    let said = |text: &str| Advice::from(text.to_owned());
    let advice =
        ["The collector cannot finish with Pod/below (denied): not today.", "What to do (denied): ask."];
    assert_eq!((&*report.groups[0].advice, report.unfinished), (&advice.map(said)[..], 2));
    assert_eq!(report.advice, advice, "each once");
}

/// A type that was left out may have what blocks it.
#[test]
fn nothing_blocks_an_object_only_if_every_type_was_looked_at() {
    let root = config("root").foreground();
    let mut cluster = cluster(&[(&root, &["foregroundDeletion"])]);
    for (left_out, said) in [
        (LeftOut::None, "ConfigMap/root waits for the collector to remove its finalizer"),
        (LeftOut::Chosen(1), "ConfigMap/root waits for something that could not be looked at"),
    ] {
        cluster.outside.left_out = left_out;
        assert_eq!(sentences(&report(&mut cluster, NOW, |_| true)), [said]);
    }
}

/// One that was deleted less long ago than is asked about, or that nobody asked about, is not counted, and no command
/// is about it.
#[test]
fn a_number_counts_what_is_stuck() {
    let all = ["a", "b", "c"].map(|name| config(name).terminating());
    let mut cluster = Cluster::of(&all.iter().collect::<Vec<_>>());
    for (obj, second) in all.iter().zip(["00:00:30", "00:00:00", "00:00:00"]) {
        cluster = cluster.with(obj, |details| {
            details.deleted = Some(format!("2026-01-01T{second}Z"));
            details.finalizers = vec!["gone.example.net/c".to_owned()];
        });
    }
    let reports =
        [report(&mut cluster, NOW, |_| true), report(&mut cluster, Duration::ZERO, |of| &*of.name != "a")];
    for report in reports {
        assert_eq!(sentences(&report), ["2 objects wait for finalizer gone.example.net/c"]);
        let holders: Vec<&str> = report.groups[0].holders.iter().map(|holder| &*holder.name).collect();
        assert_eq!((holders, report.groups[0].holder_count), (vec!["b", "c"], 2));
        let command = ", for each object as for this one: kubectl patch configmaps b -n ns ";
        assert!(report.advice.iter().any(|advice| advice.contains(command)), "{report:?}");
    }
}

#[test]
fn objects_with_the_same_finalizer_have_one_cause_and_the_first_are_named() {
    let all: Vec<Obj> = (0..30).map(|number| config(&format!("c{number}")).terminating()).collect();
    let finalizers: &[&str] = &["example.com/backup"];
    let mut cluster = cluster(&all.iter().map(|obj| (obj, finalizers)).collect::<Vec<_>>());
    let of_all = report(&mut cluster, NOW, |_| true);
    assert_eq!(sentences(&of_all), ["30 objects wait for finalizer example.com/backup"]);
    assert_eq!((of_all.groups[0].holders.len(), of_all.groups[0].object_count), (20, 30));
    assert_eq!(of_all.groups[0].oldest.as_deref(), Some("2026-01-01T00:00:00Z"));
    let before = report(&mut cluster, MINUTE, |_| true);
    assert_eq!((before.stuck, before.being_deleted, before.groups.len()), (0, 30, 0));
    assert_eq!(before.oldest.as_deref(), Some("2026-01-01T00:00:00Z"));
    let deleted = [(all[0].identity(), all[0].facts.deletion_state())];
    let unread = cluster.ask_with(0, |asker| stuck(asker, &deleted, NOW, |_| true));
    assert_eq!((unread.stuck, unread.not_read), (0, 1));
}

/// `tests/insight/truth_causes.rs` shows other causes on a real API server.
#[test]
fn only_a_pod_has_a_grace_period_and_each_other_cause_is_its_own() {
    let (pod, config) = (pod("p").terminating(), config("c").terminating());
    let namespace = obj("namespaces", "", "ns").terminating();
    let definition =
        obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com").terminating();
    let with = |obj: &Obj, grace, particulars: &Particulars| {
        Cluster::of(&[obj, &node("n1")]).with(obj, |details| {
            (details.grace, details.particulars) = (grace, particulars.clone());
        })
    };
    let [on_node, lost] = ["n1", "n2"].map(|node| Particulars::Pod { node: Some(node.into()) });
    let of = |names: &[&str]| {
        let finalizers = names.iter().map(|&name| name.to_owned()).collect();
        Particulars::Container { finalizers, conditions: Vec::new() }
    };
    let own = of(&["kubernetes"]);
    for (obj, particulars, is_all, silent, cause, predicate) in [
        (
            &pod,
            &on_node,
            true,
            None,
            "kubelet",
            ": its grace period of 5 s ended 55s ago, and the kubelet of node n1 has not confirmed its end",
        ),
        (
            &pod,
            &lost,
            true,
            None,
            "kubelet",
            ": its grace period of 5 s ended 55s ago, and node n2 does not exist",
        ),
        (
            &config,
            &Particulars::None,
            true,
            None,
            "unexplained",
            " waits for something that the API does not show",
        ),
        (
            &namespace,
            &own,
            true,
            None,
            "namespaceController",
            " waits for the namespace controller of kube-controller-manager or a collector with --finish-namespaces",
        ),
        (
            &namespace,
            &own,
            false,
            None,
            "unknown",
            " waits for the namespace controller of kube-controller-manager or a collector with --finish-namespaces, or for \
             what was not looked at",
        ),
        (
            &namespace,
            &of(&["kubernetes", "example.com/quota"]),
            true,
            None,
            "specFinalizers",
            " waits for finalizer example.com/quota in its spec",
        ),
        (
            &namespace,
            &own,
            true,
            Some("metrics.k8s.io/v1beta1"),
            "silentApi",
            " waits for an API that does not answer: metrics.k8s.io/v1beta1",
        ),
        // Only a namespace waits for every API.
        (
            &definition,
            &of(&[]),
            true,
            Some("metrics.k8s.io/v1beta1"),
            "unexplained",
            " waits for something that the API does not show",
        ),
    ] {
        let mut cluster = with(obj, if cause == "kubelet" { 5 } else { 0 }, particulars);
        let deleted = [(obj.identity(), obj.facts.deletion_state())];
        let unseen = |what: &str| Unseen { what: what.into(), why: "503".into() };
        cluster.outside.silent_apis = silent.map(unseen).into_iter().collect();
        cluster.outside.types = (!is_all).then(|| unseen("widgets.example.com")).into_iter().collect();
        let report = cluster.ask(|asker| stuck(asker, &deleted, Duration::ZERO, |_| true));
        let sentence = format!("{}{predicate}", ObjectName::from(&obj.identity()));
        assert_eq!((&*report.groups[0].cause, sentences(&report)), (cause, vec![&*sentence]));
        let Explanation { verdict, advice, .. } = cluster.explain(obj);
        assert_eq!(verdict.contains("grace period"), cause == "kubelet", "{verdict}");
        if cause == "kubelet" {
            let command = if particulars == &lost {
                "\"}}' | kubectl delete --raw /api/v1/namespaces/ns/pods/p -f -"
            } else {
                "Look at it and its kubelet."
            };
            assert!(advice.len() == 1 && advice[0].ends_with(command), "{advice:?}");
            assert_eq!(advice[0].contains("that no finalizer holds"), particulars == &lost, "{advice:?}");
            assert_eq!(report.advice, advice);
        }
    }
    let mut before = with(&pod, 72, &on_node);
    assert_eq!(report(&mut before, Duration::ZERO, |_| true).stuck, 0);
    let verdict = "Pod/p is being deleted: its grace period of 72 s ends in 12s.";
    assert_eq!(before.explain(&pod).verdict, verdict);
}

/// Whoever removes that need not wait for the dependents.
#[test]
fn what_holds_an_object_beside_its_dependents_is_said() {
    let a = config("a").foreground();
    let x = pod("x").blocking(&a).terminating();
    let mut cluster = cluster(&[(&a, &["foregroundDeletion", "example.com/a"]), (&x, &["example.com/x"])]);
    let report = report(&mut cluster, NOW, |_| true);
    let said = [
        "ConfigMap/a waits for Pod/x (finalizer example.com/x)",
        "ConfigMap/a waits for finalizer example.com/a",
    ];
    assert_eq!((sentences(&report), report.stuck), (said.to_vec(), 2));
    let explained = cluster.explain(&a);
    let said = "ConfigMap/a is being deleted, and waits for 1 blocking dependent; it also waits for finalizer \
                example.com/a.";
    assert_eq!((&*explained.verdict, explained.held_by.len()), (said, 1));
    for of in ["Finalizer example.com/a: ", "Finalizer example.com/x: "] {
        assert!(explained.advice.iter().any(|advice| advice.starts_with(of)), "{explained:?}");
    }
    let (p, y) = (pod("p").foreground(), pod("y").blocking(&pod("p")).terminating());
    let mut cluster = Cluster::of(&[&p, &y]).with(&p, |details| details.grace = 5);
    let said = "1 blocking dependent; its grace period of 5 s ended 55s ago.";
    assert!(cluster.explain(&p).verdict.ends_with(said));
}

/// Its pods go with it, and what else it owns.
#[test]
fn the_deletion_of_a_node_is_not_advised() {
    let (pod, node) = (pod("p").terminating(), node("n1"));
    let (unknown, asks) = ("Whether node n1 is ready could not be read. ", "Look at it and its kubelet.");
    for (state, begins, ends) in [
        (NodeState::Ready, "Node n1 is ready: ", "look at its kubelet."),
        (NodeState::Unknown, unknown, asks),
        (
            NodeState::Unready,
            "Node n1 is not ready. kube-controller-manager removes the pods of a node that has been deleted; ",
            "`plan node/n1` says what else goes with it.",
        ),
    ] {
        let mut cluster =
            Cluster::of(&[&pod, &node]).with(&node, |of| of.particulars = Particulars::Node(state));
        cluster = cluster.with(&pod, |details| {
            (details.grace, details.particulars) = (5, Particulars::Pod { node: Some("n1".into()) });
        });
        assert_eq!(cluster.explain(&pod).advice.len(), 1);
        let failed = Live::Failed("403".into());
        for (advice, begins, ends) in [
            (cluster.explain(&pod).advice, begins, ends),
            (cluster.reading(&node, failed).explain(&pod).advice, unknown, asks),
        ] {
            assert!(advice[0].starts_with(begins) && advice[0].ends_with(ends), "{advice:?}");
        }
    }
}

/// The API server manages the APIService of a definition: it comes back.
#[test]
fn a_conversion_webhook_that_fails_is_named() {
    let namespace = obj("namespaces", "", "ns").terminating();
    let mut cluster = Cluster::of(&[&namespace]).with(&namespace, |details| {
        let (finalizers, conditions) = (vec!["kubernetes".to_owned()], Vec::new());
        details.particulars = Particulars::Container { finalizers, conditions };
    });
    let unseen = Unseen { what: "widgets.example.com".into(), why: "500".into() };
    let message = "conversion webhook for example.com/v1, Kind=Widget failed: Post \"https://x/\": refused";
    cluster.outside.silent_apis = vec![unseen.silent(message)];
    assert_eq!(unseen.silent("etcdserver: request timed out"), unseen);
    let (webhook, report) = (
        "the conversion webhook of CustomResourceDefinition widgets.example.com",
        report(&mut cluster, NOW, |_| true),
    );
    assert_eq!(
        sentences(&report),
        [format!("Namespace/ns waits for an API that does not answer: {webhook}")]
    );
    let repair = format!(
        "A namespace only goes after every API has answered. Repair {webhook}. The APIService of an \
                          aggregated API can be removed instead."
    );
    assert_eq!(report.advice, [repair]);
}

#[test]
fn a_definition_waits_for_what_was_not_listed() {
    let definition =
        obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com").terminating();
    let mut cluster = cluster(&[(&definition, &["customresourcecleanup.apiextensions.k8s.io"])]);
    let unseen = |what: &str| vec![Unseen { what: what.into(), why: "503".into() }];
    for (left_out, types, waits_for) in [
        (LeftOut::None, vec![], "finalizer customresourcecleanup.apiextensions.k8s.io"),
        (LeftOut::None, unseen("things.example.com"), "finalizer customresourcecleanup.apiextensions.k8s.io"),
        (LeftOut::None, unseen("widgets.example.com"), "something that could not be looked at"),
        (LeftOut::Chosen(1), vec![], "something that could not be looked at"),
    ] {
        (cluster.outside.left_out, cluster.outside.types) = (left_out, types);
        let said = format!("CustomResourceDefinition/widgets.example.com waits for {waits_for}");
        assert_eq!(sentences(&report(&mut cluster, NOW, |_| true)), [said]);
    }
}

#[test]
fn what_protects_the_first_of_several_is_said() {
    let claims = ["c1", "c2"].map(|name| obj("persistentvolumeclaims", "ns", name).terminating());
    let finalizers: &[&str] = &["kubernetes.io/pvc-protection"];
    let mut cluster = cluster(&claims.each_ref().map(|claim| (claim, finalizers)));
    let said = "2 objects wait for finalizer kubernetes.io/pvc-protection (of PersistentVolumeClaim/c1: Pod/user uses it)";
    assert_eq!(sentences(&report(&mut cluster, NOW, |_| true)), [said]);
}

#[test]
fn what_is_in_a_namespace_or_of_a_definition_holds_it() {
    let namespace = obj("namespaces", "", "ns").terminating();
    let definition =
        obj("customresourcedefinitions.apiextensions.k8s.io", "", "widgets.example.com").terminating();
    let widget = obj("widgets.example.com", "other", "w").terminating();
    let inside = config("held").terminating();
    let mut cluster = cluster(&[
        (&namespace, &[]),
        (&definition, &["customresourcecleanup.apiextensions.k8s.io"]),
        (&widget, &["example.com/w"]),
        (&inside, &["example.com/c"]),
    ]);
    let report = report(&mut cluster, NOW, |identity| identity.namespace.is_none());
    assert_eq!(
        sentences(&report),
        [
            "Namespace/ns waits for ConfigMap/held (finalizer example.com/c)",
            "CustomResourceDefinition/widgets.example.com waits for Widget/w (finalizer example.com/w)",
        ]
    );
}

proptest! {
    /// Everything that is stuck is in some group, and no group has anything else.
    #[test]
    fn everything_that_is_stuck_has_a_cause(
        edges in prop::collection::vec((0..8_usize, 0..8_usize, any::<bool>()), 0..16),
        states in prop::collection::vec(0..4_u8, 8),
    ) {
        let mut all: Vec<Obj> = (0..8).map(|number| config(&format!("o{number}"))).collect();
        for (dependent, owner, blocks) in edges {
            let owner = all[owner].clone();
            let item = all[dependent].clone();
            all[dependent] = if blocks { item.blocking(&owner) } else { item.owned(&owner) };
        }
        let mut finalizers: Vec<Vec<&str>> = Vec::new();
        for (obj, state) in all.iter_mut().zip(&states) {
            *obj = match state {
                0 | 1 => obj.clone().foreground(),
                2 => obj.clone().terminating(),
                _ => obj.clone(),
            };
            finalizers.push(match state {
                0 => vec!["foregroundDeletion"],
                1 => vec!["foregroundDeletion", "example.com/a"],
                2 => vec!["example.com/b"],
                _ => Vec::new(),
            });
        }
        let objects: Vec<(&Obj, &[&str])> = all.iter().zip(&finalizers).map(|(obj, all)| (obj, &all[..])).collect();
        let mut cluster = cluster(&objects);
        let report = report(&mut cluster, NOW, |_| true);
        let names = |uids: &mut dyn Iterator<Item = String>| uids.collect::<std::collections::BTreeSet<_>>();
        let grouped = names(&mut report.groups.iter().flat_map(|group| &group.objects).map(|name| name.name.clone()));
        let deleted = all.iter().filter(|obj| obj.facts.being_deleted);
        let stuck = names(&mut deleted.map(|obj| obj.facts.name.to_string()));
        prop_assert_eq!(report.stuck, stuck.len());
        prop_assert_eq!(grouped, stuck);
    }
}
