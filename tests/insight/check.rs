//! `kube-gc check`: each class, each exit code, and that the collector does what is foretold.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::fixtures::reader_of;
use super::kube_gc;
use crate::conformance::stage::{Stage, own};
use kube_gc_testkit::proxy::{Matcher, Proxy, Verb};
use kube_gc_testkit::{Cluster, Ns, Obj, Policy, Scope};

kube_gc_testkit::scenarios! {
    each_class_is_found_and_the_collector_does_what_is_foretold,
    the_exit_code_follows_from_the_worst_effect,
    a_selector_says_what_is_reported,
    who_may_not_read_the_owner_gets_no_finding,
    owners_of_types_that_are_not_listed_are_read,
    no_collector_is_asked,
}

/// A correct reference, with some fields replaced.
fn reference(owner: &Obj, changed: &Value) -> Value {
    let mut reference = owner.reference();
    for (field, value) in changed.as_object().into_iter().flatten() {
        reference[field] = value.clone();
    }
    reference
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
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let (ns, other) = (cluster.namespace().await?, cluster.namespace().await?);
    let gadgets = cluster.crd("gadgets.check.example.com", Scope::Cluster, &["v1"]).await?;
    let owner = ns.configmap("owner").create().await?;
    let elsewhere = other.configmap("elsewhere").create().await?;
    let absent = gone(cluster, &ns, "gone").await?;
    let old = gone(cluster, &ns, "again").await?;
    ns.configmap("again").create().await?;
    let wrong = |changed: Value| reference(&owner, &changed);
    let mut expected: Vec<(Obj, Vec<(&str, &str)>)> = Vec::new();
    for (name, references, classes) in [
        ("absent", vec![absent.reference()], vec![("deletes", "absent")]),
        ("recreated", vec![old.reference()], vec![("deletes", "recreated")]),
        ("other-namespace", vec![elsewhere.reference()], vec![("deletes", "other_namespace")]),
        ("other-name", vec![wrong(json!({ "name": "renamed" }))], vec![("deletes", "other_name")]),
        ("other-kind", vec![wrong(json!({ "kind": "Secret" }))], vec![("deletes", "other_kind")]),
        (
            "unresolved",
            vec![wrong(json!({ "apiVersion": "gone.example.com/v1", "kind": "Widget" }))],
            vec![("leaks", "unresolved")],
        ),
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

    let line = "check -A --kinds configmaps,secrets,*.check.example.com -o json";
    let before = cluster.request_counts().await?;
    let ran = kube_gc(stage.plane.kubeconfig(), line).await?;
    ensure!(ran.code == 1, "{ran:?}");
    ensure!(cluster.request_counts().await?.since(&before).writes() == 0, "something was written");
    let answer = ran.json()?;
    for (object, classes) in &expected {
        let found = findings(&answer, object)?;
        let found: Vec<(&str, &str)> =
            found.iter().map(|(effect, class)| (effect.as_str(), class.as_str())).collect();
        ensure!(found == *classes, "{object}: {found:?} instead of {classes:?}");
    }

    let collector = stage.collector().await?;
    cluster.settled_with_parked(&collector).await?;
    for (object, classes) in &expected {
        let goes = classes.iter().any(|(effect, _)| *effect == "deletes");
        ensure!(cluster.exists_with_uid(object).await? != goes, "{object}: {classes:?}");
    }
    // The collector of the next scenario would park what leaks. This one would delete the rest of a
    // ring after the first of it.
    collector.stop().await?;
    for (object, classes) in &expected {
        if classes.iter().all(|(effect, _)| *effect != "deletes") {
            cluster.delete(object, Policy::Background).await?;
        }
    }
    stage.clear().await
}

async fn the_exit_code_follows_from_the_worst_effect() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let codes = async || -> Result<Vec<i32>> {
        let mut codes = Vec::new();
        for fail_on in ["", " --fail-on deletes", " --fail-on leaks", " --fail-on odd", " --fail-on never"] {
            let line = format!("check -n {}{fail_on}", ns.name());
            codes.push(kube_gc(stage.plane.kubeconfig(), &line).await?.code);
        }
        Ok(codes)
    };
    let owner = ns.configmap("owner").create().await?;
    ns.secret("in-order").owned_by(&owner).create().await?;
    ensure!(codes().await? == [0, 0, 0, 0, 0], "a namespace in order");
    let twice =
        ns.secret("odd").owned_by(&owner).owner_reference(reference(&owner, &json!({ "kind": "configmap" })));
    twice.create().await?;
    ensure!(codes().await? == [0, 0, 0, 1, 0], "something odd");
    let unserved = json!({ "apiVersion": "gone.example.com/v1" });
    let leaks = ns.secret("leaks").owner_reference(reference(&owner, &unserved)).create().await?;
    ensure!(codes().await? == [1, 0, 1, 1, 0], "a leak");
    let absent = gone(cluster, &ns, "gone").await?;
    ns.secret("deletes").owned_by(&absent).create().await?;
    ensure!(codes().await? == [1, 1, 1, 1, 0], "a deletion");

    let ran = kube_gc(stage.plane.kubeconfig(), &format!("check -n {}", ns.name())).await?;
    ensure!(ran.out.ends_with("3 of 5 references; 1 object would be deleted.\n"), "{ran:?}");
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("check -n {} -o name", ns.name())).await?;
    ensure!(ran.out == "secret/deletes\nsecret/leaks\nsecret/odd\n", "{ran:?}");
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("check -n {} -o wide", ns.name())).await?;
    ensure!(ran.out.contains(&absent.uid) && ran.out.starts_with("NAMESPACE"), "{ran:?}");
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("check -n {} --no-headers", ns.name())).await?;
    ensure!(ran.out.starts_with("deletes"), "{ran:?}");
    cluster.delete(&leaks, Policy::Background).await?;
    stage.clear().await
}

async fn a_selector_says_what_is_reported() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let owner = ns.configmap("owner").create().await?;
    let absent = gone(cluster, &ns, "gone").await?;
    let meant = ns.secret("meant").label("app", "web").owned_by(&absent).create().await?;
    ns.secret("other").label("app", "db").owned_by(&absent).create().await?;
    // Its owner has no such label, and exists.
    ns.secret("in-order").label("app", "web").owned_by(&owner).create().await?;
    let ring =
        [ns.configmap("ring-a").label("app", "web").create().await?, ns.configmap("ring-b").create().await?];
    own(cluster, &ring[0], &ring[1], false).await?;
    own(cluster, &ring[1], &ring[0], false).await?;
    let line = format!("check -n {} --kinds configmaps,secrets -l app=web,app!=db", ns.name());
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} -o json")).await?;
    let answer = ran.json()?;
    ensure!(ran.code == 1 && answer["objects"] == 3 && answer["references"] == 3, "{answer}");
    ensure!(answer["findings"].as_array().map(Vec::len) == Some(2), "{answer}");
    ensure!(findings(&answer, &meant)? == [("deletes".to_owned(), "absent".to_owned())], "{answer}");
    ensure!(findings(&answer, &ring[0])? == [("odd".to_owned(), "ring".to_owned())], "{answer}");
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("check -n {} -l =x", ns.name())).await?;
    ensure!(ran.code == 2 && ran.err.contains("does not understand the selector"), "{ran:?}");
    cluster.delete_all(&ring, Policy::Background).await?;
    stage.clear().await
}

/// Asks as a user who may list Secrets, and read no ConfigMap.
async fn who_may_not_read_the_owner_gets_no_finding() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let user = reader_of(&stage, &ns, "secrets").await?;
    let owner = ns.configmap("owner").create().await?;
    ns.secret("item").owned_by(&owner).create().await?;
    let line = format!("check -n {} --kinds secrets", ns.name());
    let ran = kube_gc(user.kubeconfig(), &line).await?;
    ensure!(ran.code == 7, "{ran:?}");
    ensure!(ran.out.starts_with("0 of 1 reference; 0 objects would be deleted. Not looked at: "), "{ran:?}");
    ensure!(ran.out.contains("ConfigMap/owner") && ran.out.contains("403"), "{ran:?}");
    let json = kube_gc(user.kubeconfig(), &(line.clone() + " -o json")).await?.json()?;
    ensure!(json["findings"] == json!([]) && json["incomplete"][0]["what"] == "ConfigMap/owner", "{json}");

    // What is known to be wrong counts more than what is not known.
    let unserved = json!({ "apiVersion": "gone.example.com/v1" });
    let leaks = ns.secret("leaks").owner_reference(reference(&owner, &unserved)).create().await?;
    ensure!(kube_gc(user.kubeconfig(), &line).await?.code == 1);
    // A type that may not be listed.
    let ran = kube_gc(user.kubeconfig(), &format!("check -n {} --kinds configmaps", ns.name())).await?;
    ensure!(ran.code == 7 && ran.out.contains("Not looked at: configmaps (LIST"), "{ran:?}");
    cluster.delete(&leaks, Policy::Background).await?;
    stage.clear().await
}

/// An owner is not taken for absent because its type was left out.
async fn owners_of_types_that_are_not_listed_are_read() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let owner = ns.configmap("owner").create().await?;
    ns.secret("item").owned_by(&owner).create().await?;
    ns.secret("of-namespace").owned_by(ns.as_object()).create().await?;
    // The API server itself reads namespaces, so its own metrics would count too much.
    let proxy = Proxy::start(stage.plane).await?;
    let ran = kube_gc(proxy.kubeconfig(), &format!("check -n {} --exclude configmaps", ns.name())).await?;
    ensure!(ran.code == 0 && ran.out.contains("Left out on request: 1 type"), "{ran:?}");
    ensure!(ran.out.contains("0 of 2 references"), "{ran:?}");
    for resource in ["configmaps", "namespaces"] {
        let sent = |verb| proxy.all(&Matcher::verb(verb).of(resource)).len();
        ensure!(sent(Verb::List) == 0 && sent(Verb::Get) == 1, "{resource} {}", sent(Verb::Get));
    }
    stage.clear().await
}

async fn no_collector_is_asked() -> Result<()> {
    let stage = Stage::set().await?;
    for source in ["--from collector", "--collector http://127.0.0.1:8081"] {
        let ran = kube_gc(stage.plane.kubeconfig(), &format!("check {source}")).await?;
        ensure!(ran.code == 2 && ran.err.contains("no collector answers this"), "{source}: {ran:?}");
    }
    stage.clear().await
}
