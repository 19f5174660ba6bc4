//! `kube-gc stuck`: causes, ages and exit codes.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::json;

use super::fixtures::{HeldCascade, World, stuck, unserved};
use crate::conformance::stage::HOLD;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Obj, Policy, Scope};

kube_gc_testkit::scenarios! {
    what_waits_is_grouped_by_what_holds_it,
    a_claim_waits_for_the_pods_that_use_it,
    what_a_collector_cannot_finish_is_named,
    what_holds_a_namespace_and_a_definition_is_named,
    what_blocks_a_namespace_from_outside_is_named,
    a_definition_whose_objects_cannot_be_deleted_says_why,
    a_selector_says_what_is_reported,
}

async fn what_waits_is_grouped_by_what_holds_it() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    caller.says("stuck --older 0s", 0, &["Nothing is stuck.\n"]).await?;
    let alone = create_all(["a", "b"].map(|name| ns.configmap(name).finalizer("example.com/backup"))).await?;
    cluster.delete_all(&alone, Policy::Background).await?;
    let cascade = HeldCascade::begin(&world).await?;
    let before = cluster.request_counts().await?;
    let json = stuck(caller, "stuck --older 0s --from lists", 5).await?;
    ensure!(json["groups"][0]["cause"] == "finalizers" && json["beingDeleted"] == 5, "{json}");
    ensure!(json["groups"][0]["holders"][0]["uid"] == cascade.held.uid.as_str(), "{json}");
    let table = format!(
        "5 objects are stuck: deleted more than ago.\n\nSTUCK OLDEST CAUSE\n\
         3 2 objects wait for Secret/held (finalizer {HOLD})\n\
         2 2 objects wait for finalizer example.com/backup\n"
    );
    // The page of a collector counts the same.
    let page = format!("/debug/stuck?older=0&namespace={}", ns.name());
    let totals = cascade.collector.get_debug(&page).await?.json()?["totals"].clone();
    ensure!(totals["held"] == 3 && totals["blocked"] == 2, "{totals}");
    let advice = format!("Finalizer {HOLD}: ");
    for (flags, code, said) in [
        ("--older 0s", 1, &[table.as_str(), &advice][..]),
        ("--older 0s -o name", 1, &["secret/held\nconfigmap/a\nconfigmap/b\n"]),
        ("--older 0s -o wide", 1, &[&cascade.root.uid]),
        // Nothing was deleted so long ago.
        ("--older 1d", 0, &["Nothing is stuck. 5 objects are being deleted, the oldest for"]),
    ] {
        caller.says(&format!("stuck {flags} --from lists"), code, said).await?;
    }
    let everywhere = super::kube_gc(caller.kubeconfig, "stuck -A --older 0s -o json").await?;
    ensure!(everywhere.code == 1 && everywhere.json()?["beingDeleted"].as_u64() >= Some(5), "{everywhere:?}");
    ensure!(cluster.request_counts().await?.since(&before).writes() == 0, "something was written");
    for object in &alone {
        cluster.set_finalizers(object, &[]).await?;
    }
    cascade.end(&world).await
}

/// Fails unless `explain` says that an object waits for this, and it does.
async fn waits(world: &World, what: &str, object: &Obj, said: &str) -> Result<()> {
    let (cluster, _, caller) = world.parts();
    let json = caller.json(&format!("explain {what}")).await?;
    let verdict = json["verdict"].as_str().unwrap_or_default();
    ensure!(json["outcome"] == "waits" && verdict.contains(said), "{what}: not {said:?} in {json}");
    ensure!(cluster.exists_with_uid(object).await?, "{what} is gone, after {verdict:?}");
    Ok(())
}

/// A claim that is protected names the pods that use it, until none does.
async fn a_claim_waits_for_the_pods_that_use_it() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let spec = json!({
        "nodeName": "nowhere",
        "containers": [{ "name": "main", "image": "none" }],
        "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "claim" } }],
    });
    let pod = ns.pod("user").field("spec", spec).create().await?;
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let claim = ns.of::<PersistentVolumeClaim>("claim").field("spec", spec).create().await?;
    let claim = cluster.set_finalizers(&claim, &["kubernetes.io/pvc-protection"]).await?;
    cluster.delete(&claim, Policy::Background).await?;
    let of_claim = "waits for finalizer kubernetes.io/pvc-protection";
    waits(&world, "pvc/claim", &claim, &format!("{of_claim}: Pod/user uses it")).await?;
    stuck(caller, "stuck --older 0s", 1).await?;
    let said = format!("PersistentVolumeClaim/claim {of_claim}: Pod/user uses it");
    caller.says("stuck --older 0s", 1, &[&said]).await?;
    // Its data goes with the last pod that uses it.
    let frees = [
        "Pod/user is deleted, and its dependents follow; 1 may go or stay.\n",
        "PersistentVolumeClaim/claim",
    ];
    caller.says("plan pod/user", 0, &frees).await?;
    caller.says("plan pod/user --fail-above 1", 1, &["2 objects would be deleted"]).await?;
    let other = ns.pod("other").field("spec", pod.raw["spec"].clone()).create().await?;
    caller.says("plan pod/user", 0, &["; no other object goes.\n", "!PersistentVolumeClaim/"]).await?;
    caller.says("plan pod user other", 0, &["; 1 may go or stay.\n"]).await?;
    for pod in [&pod, &other] {
        cluster.delete_with(pod, &json!({ "gracePeriodSeconds": 0 })).await?;
    }
    cluster.assert_gone([&pod, &other]).await?;
    // Now that no pod uses it, its controller removes that.
    waits(&world, "pvc/claim", &claim, &format!("{of_claim}.")).await?;
    cluster.set_finalizers(&claim, &[]).await?;
    cluster.assert_gone([&claim]).await?;
    caller.says("stuck --older 0s", 0, &["Nothing is stuck.\n"]).await
}

/// A collector adds what it cannot finish.
async fn what_a_collector_cannot_finish_is_named() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let item = ns.secret("undecided").owner_reference(unserved()).create().await?;
    let collector = world.stage.collector().await?;
    let said =
        ["Secret/undecided: the collector cannot finish with it (unresolved): ", "finish with 1 object.\n"];
    let asked = format!("stuck --older 0s --collector http://{}", collector.debug_address());
    poll("patience to end", async || Ok(caller.json(&asked).await?["unfinished"] == 1)).await?;
    caller.says(&asked, 1, &said).await?;
    cluster.set_owner_references(&item, &[]).await?;
    cluster.settled(&collector).await?;
    caller.says(&asked, 0, &["Nothing is stuck.\n"]).await?;
    collector.stop().await
}

/// A dependent of a namespace need not be in it.
async fn what_blocks_a_namespace_from_outside_is_named() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let namespace = ns.as_object();
    let other = cluster.namespace().await?;
    let outside = other.secret("bl").owned_by(namespace).blocking().finalizer(HOLD).create().await?;
    cluster.delete(namespace, Policy::Foreground).await?;
    cluster.delete(&outside, Policy::Background).await?;
    let (line, name) = ("stuck --older 0s --from lists", ns.name());
    let collector = world.stage.collector().await?;
    for line in [line, &format!("stuck --older 0s --collector http://{}", collector.debug_address())] {
        // Nobody asked about the other namespace.
        let json = stuck(caller, line, 1).await?;
        ensure!(json["groups"][0]["holders"] == json!([]), "{json}");
        ensure!(json["advice"] == json!(["`explain` of Secret/bl says what to do."]), "{json}");
    }
    collector.stop().await?;
    let held = format!("waits for Secret/bl (finalizer {HOLD})");
    caller.says(line, 1, &["1 object is stuck", &format!("Namespace/{name} {held}")]).await?;
    caller.says(&format!("explain ns/{name} --from lists"), 0, &[&held, "bl -n "]).await?;
    let unseen = format!("Namespace/{name} waits for something that could not be looked at");
    caller.says(&format!("{line} --exclude secrets"), 1, &[&unseen]).await?;
    cluster.set_finalizers(&outside, &[]).await?;
    cluster.set_finalizers(namespace, &[]).await?;
    ns.finalize().await
}

/// The scenario does what the namespace controller does, and the API server finishes the definition.
async fn what_holds_a_namespace_and_a_definition_is_named() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let held = ns.configmap("held").finalizer("example.com/backup").create().await?;
    let widgets = cluster.crd("widgets.stuck.example.org", Scope::Cluster, &["v1"]).await?;
    let widget = cluster.object(widgets.resource(), "one").finalizer("stuck.example.org/x").create().await?;
    let (namespace, definition) = (ns.as_object(), widgets.definition());
    cluster.delete_all(&[held.clone(), widget.clone()], Policy::Background).await?;
    for object in [namespace, definition] {
        cluster.delete(object, Policy::Background).await?;
        poll("it to be deleted", async || Ok(cluster.fresh(object).await?.is_terminating())).await?;
    }
    let (of_namespace, of_definition) = (format!("ns/{}", ns.name()), format!("crd/{}", definition.name));
    let left = "cannot go: 1 object is left, held by finalizer ";
    waits(&world, &of_namespace, namespace, &format!("{left}example.com/backup.")).await?;
    waits(&world, &of_definition, definition, &format!("{left}stuck.example.org/x.")).await?;
    // The namespace is not in itself.
    stuck(caller, "stuck --older 0s", 2).await?;
    let sentence = format!("Namespace/{} waits for ConfigMap/held (finalizer example.com/backup)", ns.name());
    caller.says("stuck --older 0s", 1, &[&sentence]).await?;
    let sentence =
        format!("CustomResourceDefinition/{} waits for Widget/one (finalizer stuck", definition.name);
    let everywhere = super::kube_gc(caller.kubeconfig, "stuck -A --older 0s").await?;
    ensure!(everywhere.out.contains(&sentence), "{everywhere:?}");

    cluster.set_finalizers(&held, &[]).await?;
    cluster.set_finalizers(&widget, &[]).await?;
    // The embedded server has no aggregated APIs.
    if world.stage.plane.embedded().is_none() {
        an_api_that_does_not_answer_holds_a_namespace_and_nothing_else(&world, &of_namespace).await?;
    }
    let said =
        "nothing is left in it, but it waits for the namespace controller of kube-controller-manager or ";
    waits(&world, &of_namespace, namespace, said).await?;
    ns.finalize().await?;
    cluster.assert_gone([namespace]).await?;
    poll("the definition to go", async || Ok(!cluster.exists_with_uid(definition).await?)).await
}

async fn an_api_that_does_not_answer_holds_a_namespace_and_nothing_else(
    world: &World,
    what: &str,
) -> Result<()> {
    let (cluster, ns, caller) = world.parts();
    let spec = json!({
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": true,
        "service": { "name": "none", "namespace": "default" },
    });
    let api = cluster.of::<APIService>("v1beta1.metrics.k8s.io").field("spec", spec).create().await?;
    let silent = async |count| {
        poll("discovery to follow", async || {
            let json = caller.json(&format!("explain {what}")).await?;
            Ok(json["namespace"]["silentApis"].as_array().is_some_and(|apis| apis.len() == count))
        })
        .await
    };
    silent(1).await?;
    let said = "waits for an API that does not answer: metrics.k8s.io/v1beta1";
    waits(world, what, ns.as_object(), said).await?;
    caller
        .says("stuck --older 0s", 1, &[&format!("Namespace/{} {said}\n", ns.name()), "!Not looked at"])
        .await?;
    // It has no objects, so every answer about objects is whole.
    caller.says("check", 0, &["!Not looked at"]).await?;
    cluster.delete(&api, Policy::Background).await?;
    silent(0).await
}

/// Its objects are stored in a version that only a webhook converts, and nobody answers there.
async fn a_definition_whose_objects_cannot_be_deleted_says_why() -> Result<()> {
    let world = World::set().await?;
    // The embedded server converts without a webhook.
    if world.stage.plane.embedded().is_some() {
        return Ok(());
    }
    let (cluster, ns, caller) = world.parts();
    let gadgets = cluster.crd("gadgets.stuck.example.org", Scope::Namespaced, &["v1"]).await?;
    let definition = gadgets.definition();
    let gadget = ns.object(gadgets.resource(), "one").create().await?;
    let old = &definition.raw["spec"]["versions"][0];
    let version = |name: &str, is_stored: bool| {
        let mut version = old.clone();
        (version["name"], version["storage"]) = (name.into(), is_stored.into());
        version
    };
    let client = json!({ "url": "https://127.0.0.1:1/" });
    let webhook = json!({ "clientConfig": client, "conversionReviewVersions": ["v1"] });
    let conversion = json!({ "strategy": "Webhook", "webhook": webhook });
    let versions = [version("v1", false), version("v2", true)];
    let broken = json!({ "spec": { "versions": versions, "conversion": conversion } });
    cluster.patch(definition, &broken).await?;
    let is_broken = async || {
        let ran = caller.ask("explain gadgets.v2.stuck.example.org/one").await?;
        Ok(ran.err.contains("conversion webhook"))
    };
    poll("the conversion to fail", is_broken).await?;
    // A namespace waits for it, and not for the API of the type.
    cluster.delete(ns.as_object(), Policy::Background).await?;
    let of_namespace = format!("explain ns/{} --from lists", ns.name());
    let webhook = format!(
        "an API that does not answer: the conversion webhook of CustomResourceDefinition {}.\n",
        definition.name
    );
    caller.says(&of_namespace, 7, &[&webhook]).await?;
    cluster.delete(definition, Policy::Background).await?;
    let what = format!("crd/{}", definition.name);
    let says = "its condition Terminating says: could not list instances: conversion webhook for ";
    for command in ["explain", "plan"] {
        let is_said = async || Ok(caller.ask(&format!("{command} {what}")).await?.out.contains(says));
        poll("the API server to say why", is_said).await.with_context(|| command.to_owned())?;
    }
    ensure!(caller.ask(&format!("explain {what} -o json")).await?.json()?["outcome"] == "waits");
    let plan = caller.ask(&format!("plan {what} -o json")).await?.json()?;
    ensure!(plan["objects"][0]["effect"] == "held", "{plan}");
    // The API server takes the condition away whenever it tries again.
    let everywhere =
        async || Ok(super::kube_gc(caller.kubeconfig, "stuck -A --older 0s").await?.out.contains(says));
    poll("the API server to say why", everywhere).await?;
    ensure!(cluster.exists_with_uid(definition).await?, "it is gone");
    let conversion = json!({ "strategy": "None", "webhook": null });
    cluster.patch(definition, &json!({ "spec": { "conversion": conversion } })).await?;
    cluster.gone(definition).await?;
    caller.says(&of_namespace, 0, &["!does not answer"]).await?;
    ns.finalize().await?;
    cluster.forget(&gadget.resource);
    Ok(())
}

async fn a_selector_says_what_is_reported() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = ns.configmap("root").label("app", "web").create().await?;
    let held = ns.secret("held").owned_by(&root).blocking().finalizer(HOLD).create().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    cluster.delete(&held, Policy::Background).await?;
    stuck(caller, "stuck --older 0s", 2).await?;
    // What holds it has no such label.
    let sentence = format!("ConfigMap/root waits for Secret/held (finalizer {HOLD})");
    // Types are asked about, wherever their objects are.
    let node = cluster.of::<Node>(format!("{}-node", ns.name())).finalizer(HOLD).create().await?;
    cluster.delete(&node, Policy::Background).await?;
    let name = format!("node/{}\n", node.name);
    let is_named = async || Ok(caller.ask("stuck --older 0s --kinds no -o name").await?.out.contains(&name));
    poll("the second of the deletion to pass", is_named).await?;
    caller.says("stuck --older 0s --kinds secrets -o name", 1, &["secret/held\n", "!node/"]).await?;
    cluster.set_finalizers(&node, &[]).await?;
    for (selector, code, said) in [
        ("app=web", 1, &["1 object is stuck", &sentence, "!kubectl patch"][..]),
        ("app=web -o name", 1, &["!secret/held"]),
        ("app!=web,app", 0, &["Nothing with the labels app!=web,app is stuck.\n"]),
        ("=x", 2, &["the server does not understand the selector"]),
        ("app=web --from collector", 2, &["--selector needs --from lists"]),
    ] {
        caller.says(&format!("stuck --older 0s -l {selector}"), code, said).await?;
    }
    Ok(())
}
