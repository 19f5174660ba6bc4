//! `kube-gc plan`: each effect, each exit code, and what the collector then does.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::fits_schema;
use super::fixtures::{World, unserved};
use crate::conformance::stage::HOLD;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    each_effect_is_planned_and_comes_true,
    too_many_deletions_fail_and_the_brake_is_foreseen,
    a_namespace_is_planned_with_all_that_is_in_it,
    a_definition_is_planned_with_all_objects_of_its_type,
    the_debug_page_has_the_same_plan,
}

/// The effect on each object, by name.
fn effects(plan: &Value) -> Vec<String> {
    let objects = plan["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> = objects
        .iter()
        .map(|object| format!("{} {}", text(&object["name"]), text(&object["effect"])))
        .collect();
    all.sort();
    all
}

async fn each_effect_is_planned_and_comes_true() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    let other = ns.configmap("other").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    let held = ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    let kept = ns.secret("kept").owned_by(&root).owned_by(&other).create().await?;
    let parked = ns.secret("parked").owned_by(&root).blocking().owner_reference(unserved()).create().await?;
    let before = cluster.request_counts().await?;
    let plan = caller.json("plan cm/root --cascade foreground").await?;
    let expected = ["held held", "kept kept", "middle deleted", "parked blocks", "root deleted"];
    ensure!(effects(&plan) == expected, "{plan}");
    ensure!(plan["deletes"] == 3 && plan["brake"]["state"] == "unknown", "{plan}");
    let row = format!("\nheld Secret/held finalizer {HOLD}\n");
    let said = [row.as_str(), "\nkept Secret/kept kept by ConfigMap/other, loses"];
    caller.says("plan cm/root --cascade foreground", 0, &said).await?;
    caller.says("plan cm/root -o name --cascade orphan", 0, &["configmap/root\n", "!secret"]).await?;
    let orphan = caller.json("plan cm/root --cascade orphan").await?;
    let expected = ["kept kept", "middle orphaned", "parked orphaned", "root deleted"];
    ensure!(effects(&orphan) == expected, "{orphan}");
    let sent = cluster.request_counts().await?.since(&before);
    ensure!(sent.writes() == 0, "something was written: {sent:?}");

    let collector = world.stage.collector().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    poll("the cascade to be held", async || Ok(cluster.fresh(&held).await?.is_terminating())).await?;
    cluster.settled_with_parked(&collector).await?;
    for there in [&root, &middle, &held, &parked] {
        cluster.fresh(there).await?;
    }
    ensure!(cluster.fresh(&kept).await?.owner_uids() == [other.uid.as_str()], "the reference is there");
    cluster.set_finalizers(&held, &[]).await?;
    cluster.settled_with_parked(&collector).await?;
    cluster.assert_gone([&middle, &held]).await?;
    cluster.fresh(&root).await?;
    cluster.set_owner_references(&parked, &[]).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&root]).await?;
    collector.stop().await?;
    caller.says("plan cm/root", 8, &["there is no ConfigMap/root"]).await
}

async fn too_many_deletions_fail_and_the_brake_is_foreseen() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    create_all((0..30).map(|number| ns.secret(format!("s{number:02}")).owned_by(&root))).await?;
    let counted = ["\nsecrets 30 - - - - -\n", "\nand 31 more objects; -o wide lists them\n"];
    caller.says("plan cm/root --fail-above 30", 1, &counted).await?;
    caller.says("plan cm/root --fail-above 31", 0, &counted).await?;
    caller.says("plan cm/root -o wide", 0, &["Secret/s29", ns.name()]).await?;
    let file = tempfile::NamedTempFile::new()?;
    for (setting, code, said) in [
        ("deletions_per_minute = 29", 0, "The brake of the collector engages: "),
        ("deletions_per_minute = 30", 0, "does not engage"),
        ("nonsense = 1", 2, "nonsense"),
    ] {
        std::fs::write(file.path(), format!("[brake]\n{setting}\n"))?;
        caller.says(&format!("plan cm/root --config {}", file.path().display()), code, &[said]).await?;
    }
    Ok(())
}

async fn a_namespace_is_planned_with_all_that_is_in_it() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let elsewhere = cluster.namespace().await?;
    ns.configmap("inside").create().await?;
    ns.secret("held").finalizer(HOLD).create().await?;
    elsewhere.configmap("owned").owned_by(ns.as_object()).create().await?;
    elsewhere.configmap("not-owned").create().await?;
    let plan = caller.json(&format!("plan ns/{} --kinds configmaps,secrets,namespaces", ns.name())).await?;
    let effects = effects(&plan);
    let root = format!("{} deleted", ns.name());
    for wanted in ["held held", "inside deleted", "owned deleted", &root] {
        ensure!(effects.iter().any(|effect| effect == wanted), "{wanted}: {effects:?}");
    }
    ensure!(!effects.iter().any(|effect| effect.starts_with("not-owned")), "{effects:?}");
    let first = &plan["objects"][0];
    ensure!(first["kind"] == "Namespace" && first["after"]["name"] == "held", "{first}");
    let inside = |object: &&Value| object["name"] == "inside";
    let inside =
        plan["objects"].as_array().and_then(|objects| objects.iter().find(inside)).context("not there")?;
    ensure!(inside["within"]["name"] == ns.name(), "{inside}");
    Ok(())
}

async fn a_definition_is_planned_with_all_objects_of_its_type() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let widgets = cluster.crd("widgets.plan.example.org", Scope::Namespaced, &["v1"]).await?;
    let one = ns.object(widgets.resource(), "one").create().await?;
    let two = cluster.namespace().await?.object(widgets.resource(), "two").create().await?;
    let below = ns.configmap("below").owned_by(&one).create().await?;
    let kinds = "--kinds configmaps,*.plan.example.org,customresourcedefinitions.*";
    let collector = world.stage.collector().await?;
    let plan =
        caller.json(&format!("plan customresourcedefinitions/widgets.plan.example.org {kinds}")).await?;
    let expected = ["below deleted", "one deleted", "two deleted", "widgets.plan.example.org deleted"];
    ensure!(effects(&plan) == expected, "{plan}");
    ensure!(plan["objects"][0]["kind"] == "CustomResourceDefinition", "{plan}");
    ensure!(plan["notes"].to_string().contains("before its definition goes"), "{plan}");
    cluster.delete(widgets.definition(), Policy::Background).await?;
    poll("the cascade to end", async || {
        let gone = |there: Result<bool>| there.is_ok_and(|there| !there);
        Ok(!cluster.exists_with_uid(&below).await?
            && gone(cluster.exists_with_uid(&one).await)
            && gone(cluster.exists_with_uid(&two).await))
    })
    .await?;
    collector.stop().await
}

async fn the_debug_page_has_the_same_plan() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let gadgets = cluster.crd("gadgets.plan.example.org", Scope::Cluster, &["v1"]).await?;
    let root = cluster.object(gadgets.resource(), "root").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    create_all((0..40).map(|number| ns.secret(format!("s{number:02}")).owned_by(&middle))).await?;
    let options = Options::config("[brake]\ndeletions_per_minute = 20\n");
    let collector = world.stage.collector_with(options).await?;
    cluster.settled(&collector).await?;
    let url = format!("--collector http://{}", collector.debug_address());
    for policy in ["background", "foreground", "orphan"] {
        let page = collector.get_debug(&format!("/debug/plan?uid={}&policy={policy}", root.uid)).await?;
        ensure!(page.status == 200, "{page:?}");
        let page = page.json()?;
        fits_schema(&page)?;
        let line = format!("plan uid:{} --cascade {policy}", root.uid);
        let command = caller.json(&line).await?;
        for field in
            ["object", "cascade", "verdict", "deletes", "byType", "notListed", "notes", "dependsOnUnseen"]
        {
            ensure!(page[field] == command[field], "{policy}, {field}: {page} {command}");
        }
        ensure!(effects(&page) == effects(&command), "{policy}: {page} {command}");
        let brake = if policy == "orphan" { "passes" } else { "engages" };
        ensure!(page["brake"]["state"] == brake, "{page}");
        // The page is what the command asks.
        let before = cluster.request_counts().await?;
        let asked = caller.json(&format!("{line} {url}")).await?;
        let sent = cluster.request_counts().await?.since(&before);
        ensure!(sent.get("LIST", "secrets") == 0 && sent.writes() == 0, "{sent:?}");
        ensure!(asked == page, "{policy}: {asked} {page}");
    }
    for (flags, code, said) in [
        ("--fail-above 20", 1, &["The brake of the collector engages: ", "more objects; -o wide lists"][..]),
        ("--kinds secrets", 2, &["--kinds and --exclude"]),
        ("--config /dev/null", 2, &["--config has the limits"]),
    ] {
        caller.says(&format!("plan uid:{} {url} {flags}", root.uid), code, said).await?;
    }
    for (query, status) in [("uid=nobody", 404), ("policy=orphan", 400), ("uid=a&policy=none", 400)] {
        let page = collector.get_debug(&format!("/debug/plan?{query}")).await?;
        ensure!(page.status == status, "{query}: {page:?}");
    }
    collector.stop().await
}
