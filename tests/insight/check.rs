//! `kube-gc check`: each class, each exit code, and that the collector does what is foretold.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::fixtures::{World, reference, unserved};
use super::{Caller, kube_gc};
use crate::conformance::stage::own;
use kube_gc_testkit::proxy::{Matcher, Proxy, Verb};
use kube_gc_testkit::{Cluster, Ns, Obj, Policy, Scope};

kube_gc_testkit::scenarios! {
    each_class_is_found_and_the_collector_does_what_is_foretold,
    the_exit_code_follows_from_the_worst_effect,
    a_selector_says_what_is_reported,
    owners_of_types_that_are_not_listed_are_read,
}

/// An owner that is gone.
async fn gone(cluster: &Cluster, ns: &Ns, name: &str) -> Result<Obj> {
    let owner = ns.configmap(name).create().await?;
    cluster.delete(&owner, Policy::Background).await?;
    Ok(owner)
}

/// Effect and class of each finding about an object.
fn findings(answer: &Value, object: &Obj) -> Result<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("no text");
    let all = answer["findings"].as_array().context("no findings")?;
    let of_object = all.iter().filter(|finding| finding["object"]["uid"] == *object.uid);
    of_object.map(|finding| Ok((text(&finding["effect"])?, text(&finding["class"])?))).collect()
}

async fn each_class_is_found_and_the_collector_does_what_is_foretold() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let other = cluster.namespace().await?;
    let gadgets = cluster.crd("gadgets.check.example.com", Scope::Cluster, &["v1"]).await?;
    let owner = ns.configmap("owner").create().await?;
    let elsewhere = other.configmap("elsewhere").create().await?;
    let absent = gone(cluster, ns, "gone").await?;
    let old = gone(cluster, ns, "again").await?;
    ns.configmap("again").create().await?;
    let wrong = |changed: Value| reference(&owner, &changed);
    let mut expected: Vec<(Obj, Vec<(&str, &str)>)> = Vec::new();
    for (name, references, classes) in [
        ("absent", vec![absent.reference()], vec![("deletes", "absent")]),
        ("recreated", vec![old.reference()], vec![("deletes", "recreated")]),
        ("other-namespace", vec![elsewhere.reference()], vec![("deletes", "other_namespace")]),
        ("other-name", vec![wrong(json!({ "name": "renamed" }))], vec![("deletes", "other_name")]),
        ("other-kind", vec![wrong(json!({ "kind": "Secret" }))], vec![("deletes", "other_kind")]),
        ("unresolved", vec![unserved()], vec![("leaks", "unresolved")]),
        (
            "unserved-version",
            vec![wrong(json!({ "apiVersion": "apps/v0", "kind": "Deployment" }))],
            vec![("leaks", "unserved_version")],
        ),
        (
            "collision",
            vec![owner.reference(), wrong(json!({ "name": "renamed" }))],
            vec![("odd", "collision"), ("odd", "other_name"), ("odd", "collision")],
        ),
        (
            "duplicate",
            vec![owner.reference(), wrong(json!({ "kind": "configmap" }))],
            vec![("odd", "duplicate")],
        ),
        ("kept", vec![owner.reference(), absent.reference()], vec![("odd", "absent")]),
        ("in-order", vec![owner.reference()], vec![]),
    ] {
        let mut item = ns.secret(name);
        for reference in references {
            item = item.owner_reference(reference);
        }
        expected.push((item.create().await?, classes));
    }
    let invalid = cluster.object(gadgets.resource(), "invalid").owned_by(&owner).create().await?;
    expected.push((invalid, vec![("leaks", "invalid_scope")]));
    let itself = ns.configmap("itself").create().await?;
    own(cluster, &itself, &itself, false).await?;
    expected.push((itself, vec![("odd", "self")]));
    let ring = [ns.configmap("ring-a").create().await?, ns.configmap("ring-b").create().await?];
    own(cluster, &ring[0], &ring[1], false).await?;
    own(cluster, &ring[1], &ring[0], true).await?;
    expected.extend(ring.map(|member| (member, vec![("odd", "ring")])));

    let before = cluster.request_counts().await?;
    let ran =
        kube_gc(caller.kubeconfig, "check -A --kinds configmaps,secrets,*.check.example.com -o json").await?;
    ensure!(ran.code == 1, "{ran:?}");
    ensure!(cluster.request_counts().await?.since(&before).writes() == 0, "something was written");
    let answer = ran.json()?;
    for (object, classes) in &expected {
        let found = findings(&answer, object)?;
        let found: Vec<(&str, &str)> =
            found.iter().map(|(effect, class)| (effect.as_str(), class.as_str())).collect();
        ensure!(found == *classes, "{object}: {found:?} instead of {classes:?}");
    }

    // What is asked about one namespace is found in another.
    let narrow = caller.json("check --kinds configmaps,secrets").await?;
    let is_meant = |(object, _): &&(Obj, Vec<(&str, &str)>)| object.name == "other-namespace";
    let (object, classes) = expected.iter().find(is_meant).context("no such object")?;
    let found = findings(&narrow, object)?;
    ensure!(found == [(classes[0].0.to_owned(), classes[0].1.to_owned())], "{found:?}");

    let collector = world.stage.collector().await?;
    cluster.settled_with_parked(&collector).await?;
    for (object, classes) in &expected {
        let goes = classes.iter().any(|(effect, _)| *effect == "deletes");
        ensure!(cluster.exists_with_uid(object).await? != goes, "{object}: {classes:?}");
    }
    collector.stop().await
}

async fn the_exit_code_follows_from_the_worst_effect() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let fail_on = ["", " --fail-on deletes", " --fail-on leaks", " --fail-on odd", " --fail-on never"];
    let codes = async |expected: [i32; 5]| -> Result<()> {
        for (fail_on, code) in fail_on.iter().zip(expected) {
            caller.says(&format!("check{fail_on}"), code, &[]).await?;
        }
        Ok(())
    };
    let owner = ns.configmap("owner").create().await?;
    ns.secret("in-order").owned_by(&owner).create().await?;
    codes([0, 0, 0, 0, 0]).await?;
    let twice = reference(&owner, &json!({ "kind": "configmap" }));
    ns.secret("odd").owned_by(&owner).owner_reference(twice).create().await?;
    codes([0, 0, 0, 1, 0]).await?;
    ns.secret("leaks").owner_reference(unserved()).create().await?;
    codes([1, 0, 1, 1, 0]).await?;
    let absent = gone(cluster, ns, "gone").await?;
    ns.secret("deletes").owned_by(&absent).create().await?;
    codes([1, 1, 1, 1, 0]).await?;
    for (flags, code, said) in [
        ("", 1, &["3 of 5 owner references are wrong; 1 object would be deleted, and what it owns.\n"][..]),
        ("-o name", 1, &["secret/deletes\nsecret/leaks\nsecret/odd\n"]),
        ("-o wide", 1, &["NAMESPACE EFFECT", &absent.uid]),
        ("--no-headers", 1, &["!EFFECT", "deletes absent secret/deletes"]),
        ("--from collector", 2, &["no collector answers this"]),
        ("--collector http://127.0.0.1:8081", 2, &["no collector answers this"]),
    ] {
        caller.says(&format!("check {flags}"), code, said).await?;
    }
    Ok(())
}

async fn a_selector_says_what_is_reported() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let owner = ns.configmap("owner").create().await?;
    let absent = gone(cluster, ns, "gone").await?;
    let meant = ns.secret("meant").label("app", "web").owned_by(&absent).create().await?;
    ns.secret("other").label("app", "db").owned_by(&absent).create().await?;
    // Its owner has no such label, and exists.
    ns.secret("in-order").label("app", "web").owned_by(&owner).create().await?;
    let ring =
        [ns.configmap("ring-a").label("app", "web").create().await?, ns.configmap("ring-b").create().await?];
    own(cluster, &ring[0], &ring[1], false).await?;
    own(cluster, &ring[1], &ring[0], false).await?;
    let answer = caller.json("check --kinds configmaps,secrets -l app=web,app!=db").await?;
    ensure!(answer["objects"] == 3 && answer["references"] == 3, "{answer}");
    ensure!(answer["findings"].as_array().map(Vec::len) == Some(2), "{answer}");
    ensure!(findings(&answer, &meant)? == [("deletes".to_owned(), "absent".to_owned())], "{answer}");
    ensure!(findings(&answer, &ring[0])? == [("odd".to_owned(), "ring".to_owned())], "{answer}");
    caller.says("check -l =x", 2, &["does not understand the selector"]).await
}

/// An owner is not taken for absent because its type was left out.
async fn owners_of_types_that_are_not_listed_are_read() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    let owner = ns.configmap("owner").create().await?;
    ns.secret("item").owned_by(&owner).create().await?;
    ns.secret("of-namespace").owned_by(ns.as_object()).create().await?;
    // The API server itself reads namespaces, so its own metrics would count too much.
    let proxy = Proxy::start(world.stage.plane).await?;
    let caller = Caller { kubeconfig: proxy.kubeconfig(), ..caller };
    let said = ["Left out on request: 1 type", "Nothing is wrong with 2 owner references."];
    caller.says("check --exclude configmaps", 0, &said).await?;
    for resource in ["configmaps", "namespaces"] {
        let sent = |verb| proxy.all(&Matcher::verb(verb).of(resource)).len();
        ensure!(sent(Verb::List) == 0 && sent(Verb::Get) == 1, "{resource} {}", sent(Verb::Get));
    }
    Ok(())
}
