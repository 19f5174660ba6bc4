//! What an explanation decides: the verdict, what it rests on, and what it cannot know.

use super::*;
use crate::judge::{Fate, fate, locate};
use crate::sentence;
use kube_gc_core::graph::Snapshot;
use kube_gc_core::graph::testing::histories;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::{OwnerReference, Uid};
use kube_gc_core::verdict::{ReferenceClass, precheck};
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
            "No garbage collector deletes ConfigMap/a: it has no owner references.",
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

/// Without one of its references, a collector would decide about an object by the others.
#[test]
fn who_wants_to_keep_an_object_removes_all_of_its_references() {
    let [absent, lives] = ["absent", "lives"].map(config);
    let (dying, scoped) = (config("dying").foreground(), node("n").owned(&lives));
    let unserved = OwnerReference { kind: "Nothing".into(), ..config("db").reference() };
    let moved = OwnerReference {
        api_version: "example.com/v9".into(),
        ..obj("widgets.example.com", "ns", "w").reference()
    };
    let item = || pod("p").with(unserved.clone());
    let keep = |name: &str| {
        format!(
            "Removing all owner references of Pod/{name} in one change keeps it from garbage collection, but not from \
             the end of its namespace, or from a controller that adopts it"
        )
    };
    let command = |uid: &str| {
        let change = r#"'[{"op":"test","path":"/metadata/uid","value":"UID"},{"op":"remove","path":"/metadata/ownerReferences"}]'"#;
        format!("{}: kubectl patch pods p -n ns --type=json -p {}", keep("p"), change.replace("UID", uid))
    };
    let back = "As soon as the server has Nothing in v1, a collector may delete the object: a restored owner has a new uid.";
    let version = "The server has Widget in example.com/v2, where no collector looks for this owner. As soon as the server \
                   has Widget in example.com/v9, a collector may delete the object: a restored owner has a new uid.";
    for (item, advice) in [
        (item(), vec![command("p"), back.to_owned()]),
        (item().owned(&lives), vec![command("p"), back.to_owned()]),
        (item().owned(&absent).owned(&dying), vec![command("p"), back.to_owned()]),
        (pod("p").with(moved).owned(&dying), vec![command("p"), version.to_owned()]),
        // A name or a uid that a shell would not take as it is.
        (item().named("$(x)"), vec![keep("$(x)") + ".", back.to_owned()]),
        (item().uid("$(x)"), vec![keep("p") + ".", back.to_owned()]),
        (item().uid("-x"), vec![keep("p") + ".", back.to_owned()]),
        // It stays.
        (scoped.owned(&node("gone")), Vec::new()),
        (pod("p").owned(&lives).owned(&absent), Vec::new()),
    ] {
        assert_eq!(Cluster::of(&[&item, &lives, &dying]).explain(&item).advice, advice);
    }
    let mut explained = Cluster::of(&[&item()]).explain(&item());
    explained.references[0].evidence = Evidence::Undiscovered;
    let advice = sentence::advice_on_references(&explained.object, &explained.references);
    let answers = "As soon as the API v1 answers, a collector may delete the object: a restored owner has a new uid. \
                   Find out why it does not answer.";
    assert_eq!(advice.into_iter().map(String::from).collect::<Vec<_>>(), [command("p"), answers.to_owned()]);
    explained.stays_for_now("namespace ns exists, which is being deleted");
    assert!(explained.advice.is_empty(), "it goes without owner references, too");
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

#[test]
fn what_only_owners_keep_that_go_is_said_to_stay_for_now() {
    let (gone, dying, live) = (config("gone"), config("dying").terminating(), config("live"));
    let garbage = config("garbage").owned(&gone);
    let below = config("below").owned(&garbage);
    let releasing = config("releasing").owned(&gone).with_finalizers(false, true);
    let loses = config("loses").owned(&gone).owned(&dying);
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
        // What the collector removes of it does not keep it.
        (
            pod("p").owned(&dying).owned(&gone),
            Outcome::StaysForNow,
            "at most as long as ConfigMap/dying exists, which is being deleted.",
        ),
        (
            pod("p").owned(&loses),
            Outcome::StaysForNow,
            "at most as long as ConfigMap/dying exists, which is being deleted.",
        ),
        (pod("p").owned(&garbage).owned(&live), Outcome::Stays, "its 2 owners exist."),
        (pod("p").owned(&releasing), Outcome::Stays, "its owner ConfigMap/releasing exists."),
    ] {
        let all = [&dying, &live, &garbage, &below, &releasing, &loses, &item];
        // Whether lists or live reads show them.
        for mut cluster in [Cluster::of(&all), Cluster::of(&[]).known(&all)] {
            let explained = cluster.explain(&item);
            let verdict =
                format!("Pod/p stays{} {verdict}", if outcome == Outcome::Stays { ":" } else { "" });
            assert_eq!((explained.outcome, explained.verdict), (outcome, verdict));
        }
    }
    // An owner that has released its dependents keeps none.
    let released = pod("p").owned(&dying);
    let mut judged = Cluster::of(&[&dying, &released]).explain(&released).references;
    judged[0].class = ReferenceClass::Orphaned;
    assert_eq!(Cluster::of(&[&dying]).ask(|asker| fate(asker, &judged, &mut Vec::new())), Fate::Stays);
}

/// No controller empties it without finalizers in its spec.
#[test]
fn what_its_namespace_takes_along_or_leaves_behind_is_said() {
    let (live, namespace) = (config("live"), obj("namespaces", "", "ns").terminating());
    let goes = "ConfigMap/live stays at most as long as namespace ns exists, which is being deleted.";
    let stays = "No garbage collector deletes ConfigMap/live: it has no owner references. Namespace ns, which is being \
                 deleted, has no finalizers in its spec: it goes without the object, which stays in the store.";
    for (finalizers, outcome, verdict) in [
        (Some(vec!["kubernetes".to_owned()]), Outcome::StaysForNow, goes),
        (Some(Vec::new()), Outcome::Stays, stays),
        (None, Outcome::StaysForNow, goes),
    ] {
        let mut explained = Cluster::of(&[&live]).explain(&live);
        assert!(explained.is_kept());
        let live = finalizers.map(|finalizers| {
            let particulars = Particulars::Container { finalizers, conditions: Vec::new() };
            LiveObject {
                facts: namespace.facts.clone(),
                details: Details { particulars, ..Details::default() },
            }
        });
        explained.is_within(&namespace.identity(), live.as_ref());
        assert_eq!((explained.outcome, &*explained.verdict), (outcome, verdict));
    }
}

/// More owners than are looked at, and higher ones.
#[test]
fn what_becomes_of_owners_that_were_not_looked_at_is_not_promised() {
    let unseen = " It goes when its owners do; whether they do was not looked at.";
    let dying: Vec<Obj> = (0..5).map(|number| config(&format!("d{number}")).terminating()).collect();
    let (live, gone) = (config("live"), config("gone"));
    let owned = |owners: usize| dying[..owners].iter().fold(pod("p"), Obj::owned);
    let mut line = vec![dying[0].clone()];
    for number in 0..5 {
        line.push(config(&format!("l{number}")).owned(&line[number]));
    }
    let circle = [config("x").owned(&config("y")), config("y").owned(&config("x"))];
    let all: Vec<&Obj> = dying.iter().chain(&line[1..]).chain(&circle).chain([&live]).collect();
    for (item, said) in [
        (owned(4), Some(" its 4 owners exist.")),
        (owned(5).owned(&gone), Some(" and not every owner does.")),
        (owned(3), None),
        (pod("p").owned(&line[4]), Some(" its owner ConfigMap/l3 exists.")),
        (pod("p").owned(&line[3]), None),
    ] {
        let verdict = Cluster::of(&[&all[..], &[&item]].concat()).explain(&item).verdict;
        let ends = said.map_or(", which is being deleted.".to_owned(), |said| format!("{said}{unseen}"));
        assert!(verdict.ends_with(&ends), "{verdict}");
    }
    // One of those that were looked at stays, or objects in a circle keep each other.
    for item in [pod("p").owned(&live).owned(&line[5]), pod("p").owned(&circle[0]), circle[0].clone()] {
        let verdict = Cluster::of(&[&all[..], &[&item]].concat()).explain(&item).verdict;
        assert!(verdict.contains(" stays: ") && !verdict.contains("not looked at"), "{verdict}");
    }
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
        let mut cluster = Cluster::of(&[&root]).read(&root, &["foregroundDeletion"]);
        cluster.outside.types = missing;
        let report = cluster.explain(&root);
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
fn an_explanation_rests_on_the_types_of_the_object_and_of_its_owners() {
    let (owner, item) = (config("a"), pod("p").owned(&config("a")));
    for (what, rests) in
        [("pods", true), ("configmaps", true), ("namespaces", false), ("dead.example.net/v1", false)]
    {
        let explained = Cluster::of(&[&owner, &item]).explain(&item);
        let unseen = vec![Unseen { what: what.into(), why: "the watch is broken".into() }];
        for outside in [
            Outside { types: unseen.clone(), ..Outside::default() },
            Outside { silent_objects: unseen, ..Outside::default() },
        ] {
            let answer = Answer::new(explained.clone(), &Knowledge::new(outside), Vec::new());
            assert_eq!(
                (answer.report.depends_on_unseen, answer.incomplete.len()),
                (rests, usize::from(rests)),
                "{what}"
            );
        }
    }
    // Some part that does not answer may have the owner.
    let mut undiscovered = Cluster::of(&[&owner, &item]).explain(&item);
    undiscovered.references[0].evidence = Evidence::Undiscovered;
    let silent_objects = vec![Unseen { what: "dead.example.net/v1".into(), why: "503".into() }];
    let known = Knowledge::new(Outside { silent_objects, ..Outside::default() });
    assert_eq!(Answer::new(undiscovered, &known, Vec::new()).incomplete.len(), 1);
}

/// Whether a claim goes depends on that.
#[test]
fn pods_that_cannot_be_listed_are_missing_in_an_answer() {
    let mut known = Knowledge::default();
    let claim = obj("persistentvolumeclaims", "ns", "c").identity();
    known.learn(Fact::Users(claim, Err("403".to_owned())));
    let answer = Answer::new(Explanation::default(), &known, Vec::new());
    assert_eq!((answer.report.depends_on_unseen, answer.incomplete.len()), (true, 1));
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
