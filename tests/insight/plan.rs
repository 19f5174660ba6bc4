//! `kube-gc plan`: each effect, each exit code, and what the collector then does.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::fixtures::{half_seen, reader_of};
use super::{fits_schema, kube_gc, words};
use crate::conformance::stage::{HOLD, Stage};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    each_effect_is_planned_and_comes_true,
    too_many_deletions_fail_and_the_brake_is_foreseen,
    who_may_not_list_a_type_is_told_so,
    who_may_not_read_an_owner_is_told_so,
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
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let root = ns.configmap("root").create().await?;
    let other = ns.configmap("other").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    let held = ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    let kept = ns.secret("kept").owned_by(&root).owned_by(&other).create().await?;
    let mut unserved = root.reference();
    unserved["kind"] = json!("Nonsense");
    unserved["uid"] = json!("nobody");
    let parked = ns.secret("parked").owned_by(&root).blocking().owner_reference(unserved).create().await?;
    let line = format!("plan cm/root -n {}", ns.name());
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} --cascade foreground -o json")).await?;
    ensure!(ran.code == 0, "{ran:?}");
    let plan = ran.json()?;
    let expected = ["held held", "kept kept", "middle deleted", "parked blocks", "root deleted"];
    ensure!(effects(&plan) == expected, "{plan}");
    ensure!(plan["deletes"] == 3 && plan["brake"]["state"] == "unknown", "{plan}");
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} --cascade foreground")).await?;
    let lines = words(&ran.out);
    let row = format!("held Secret/held finalizer {HOLD}");
    ensure!(lines.contains(&row), "{lines:?}");
    ensure!(
        lines.iter().any(|line| line.starts_with("kept Secret/kept kept by ConfigMap/other, loses")),
        "{lines:?}"
    );
    let names = kube_gc(stage.plane.kubeconfig(), &format!("{line} -o name --cascade orphan")).await?;
    ensure!(names.out == "configmap/root\n", "{names:?}");
    let orphan =
        kube_gc(stage.plane.kubeconfig(), &format!("{line} -o json --cascade orphan")).await?.json()?;
    ensure!(
        effects(&orphan) == ["kept kept", "middle orphaned", "parked orphaned", "root deleted"],
        "{orphan}"
    );

    let before = stage.cluster.request_counts().await?;
    kube_gc(stage.plane.kubeconfig(), &line).await?;
    let sent = stage.cluster.request_counts().await?.since(&before);
    ensure!(sent.writes() == 0, "something was written: {sent:?}");

    let collector = stage.collector().await?;
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
    let gone = kube_gc(stage.plane.kubeconfig(), &line).await?;
    ensure!(gone.code == 8 && gone.err.contains("there is no ConfigMap/root"), "{gone:?}");
    stage.clear().await
}

async fn too_many_deletions_fail_and_the_brake_is_foreseen() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let root = ns.configmap("root").create().await?;
    create_all((0..30).map(|number| ns.secret(format!("s{number:02}")).owned_by(&root))).await?;
    let line = format!("plan cm/root -n {}", ns.name());
    for (most, code) in [(30, 1), (31, 0)] {
        let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} --fail-above {most}")).await?;
        ensure!(ran.code == code, "{most}: {ran:?}");
        let lines = words(&ran.out);
        ensure!(lines.contains(&"secrets 30 - - - - -".to_owned()), "{lines:?}");
        ensure!(lines.contains(&"and 31 more objects; -o wide lists them".to_owned()), "{lines:?}");
    }
    let wide = kube_gc(stage.plane.kubeconfig(), &format!("{line} -o wide")).await?;
    ensure!(wide.out.contains("Secret/s29") && wide.out.contains(ns.name()), "{wide:?}");
    let file = tempfile::NamedTempFile::new()?;
    for (limit, says) in [(29, "The brake of the collector engages: "), (30, "does not engage")] {
        std::fs::write(file.path(), format!("[brake]\ndeletions_per_minute = {limit}\n"))?;
        let ran =
            kube_gc(stage.plane.kubeconfig(), &format!("{line} --config {}", file.path().display())).await?;
        ensure!(ran.code == 0 && ran.out.contains(says), "{limit}: {ran:?}");
    }
    std::fs::write(file.path(), "[brake]\nnonsense = 1\n")?;
    let ran =
        kube_gc(stage.plane.kubeconfig(), &format!("{line} --config {}", file.path().display())).await?;
    ensure!(ran.code == 2 && ran.err.contains("nonsense"), "{ran:?}");
    stage.clear().await
}

async fn who_may_not_list_a_type_is_told_so() -> Result<()> {
    let stage = Stage::set().await?;
    let (ns, user) = half_seen(&stage).await?;
    let line = format!("plan cm/root -n {} --kinds configmaps,secrets", ns.name());
    let ran = kube_gc(user.kubeconfig(), &line).await?;
    ensure!(ran.code == 7 && ran.out.contains("Not looked at: secrets (LIST secrets"), "{ran:?}");
    let plan = kube_gc(user.kubeconfig(), &format!("{line} -o json")).await?.json()?;
    ensure!(effects(&plan) == ["root deleted", "seen deleted"] && plan["dependsOnUnseen"] == true, "{plan}");
    // What is certain is enough to fail.
    let ran = kube_gc(user.kubeconfig(), &format!("{line} --fail-above 1")).await?;
    ensure!(ran.code == 1, "{ran:?}");
    let ran = kube_gc(user.kubeconfig(), &format!("plan secret/unseen -n {}", ns.name())).await?;
    ensure!(ran.code == 6 && ran.out.is_empty(), "{ran:?}");
    stage.clear().await
}

async fn who_may_not_read_an_owner_is_told_so() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let user = reader_of(&stage, &ns, "configmaps").await?;
    let root = ns.configmap("root").create().await?;
    let hidden = ns.secret("hidden").create().await?;
    let both = ns.configmap("both").owned_by(&root).owned_by(&hidden).create().await?;
    ns.configmap("below").owned_by(&both).create().await?;
    // Secrets are left out on request, so the owner alone is missing.
    let line = format!("plan cm/root -n {} --kinds configmaps -o json", ns.name());
    let ran = kube_gc(user.kubeconfig(), &line).await?;
    ensure!(ran.code == 7, "{ran:?}");
    let plan = ran.json()?;
    ensure!(effects(&plan) == ["below unknown", "both unknown", "root deleted"], "{plan}");
    ensure!(plan["incomplete"][0]["what"] == "Secret/hidden" && plan["perhapsDeletes"] == 2, "{plan}");
    let plan = kube_gc(stage.plane.kubeconfig(), &line).await?.json()?;
    ensure!(effects(&plan) == ["both kept", "root deleted"], "{plan}");
    stage.clear().await
}

async fn a_namespace_is_planned_with_all_that_is_in_it() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let elsewhere = cluster.namespace().await?;
    ns.configmap("inside").create().await?;
    let held = ns.secret("held").finalizer(HOLD).create().await?;
    elsewhere.configmap("owned").owned_by(ns.as_object()).create().await?;
    elsewhere.configmap("not-owned").create().await?;
    let line = format!("plan ns/{} --kinds configmaps,secrets,namespaces -o json", ns.name());
    let plan = kube_gc(stage.plane.kubeconfig(), &line).await?.json()?;
    let effects = effects(&plan);
    let mut expected = vec!["held held".to_owned(), "inside deleted".to_owned(), "owned deleted".to_owned()];
    expected.push(format!("{} deleted", ns.name()));
    for wanted in &expected {
        ensure!(effects.contains(wanted), "{wanted}: {effects:?}");
    }
    ensure!(!effects.iter().any(|effect| effect.starts_with("not-owned")), "{effects:?}");
    let first = &plan["objects"][0];
    ensure!(first["kind"] == "Namespace" && first["after"]["name"] == "held", "{first}");
    let inside = |object: &&Value| object["name"] == "inside";
    let inside =
        plan["objects"].as_array().and_then(|objects| objects.iter().find(inside)).context("not there")?;
    ensure!(inside["within"]["name"] == ns.name(), "{inside}");
    cluster.set_finalizers(&held, &[]).await?;
    stage.clear().await
}

async fn a_definition_is_planned_with_all_objects_of_its_type() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let widgets = cluster.crd("widgets.plan.example.org", Scope::Namespaced, &["v1"]).await?;
    let one = ns.object(widgets.resource(), "one").create().await?;
    let two = cluster.namespace().await?.object(widgets.resource(), "two").create().await?;
    let below = ns.configmap("below").owned_by(&one).create().await?;
    let kinds = "--kinds configmaps,*.plan.example.org,customresourcedefinitions.*";
    let line = format!("plan customresourcedefinitions/widgets.plan.example.org {kinds} -o json");
    let collector = stage.collector().await?;
    let ran = kube_gc(stage.plane.kubeconfig(), &line).await?;
    ensure!(ran.code == 0, "{ran:?}");
    let plan = ran.json()?;
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
    collector.stop().await?;
    stage.clear().await
}

async fn the_debug_page_has_the_same_plan() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let gadgets = cluster.crd("gadgets.plan.example.org", Scope::Cluster, &["v1"]).await?;
    let root = cluster.object(gadgets.resource(), "root").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    let held = ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    create_all((0..40).map(|number| ns.secret(format!("s{number:02}")).owned_by(&middle))).await?;
    let options = Options::config("[brake]\ndeletions_per_minute = 20\n");
    let collector = stage.collector_with(options).await?;
    cluster.settled(&collector).await?;
    let url = format!("--collector http://{}", collector.debug_address());
    for policy in ["background", "foreground", "orphan"] {
        let page = collector.get_debug(&format!("/debug/plan?uid={}&policy={policy}", root.uid)).await?;
        ensure!(page.status == 200, "{page:?}");
        let page = page.json()?;
        fits_schema(&page)?;
        let line = format!("plan uid:{} --cascade {policy} -o json", root.uid);
        let command = kube_gc(stage.plane.kubeconfig(), &line).await?.json()?;
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
        let asked = kube_gc(stage.plane.kubeconfig(), &format!("{line} {url}")).await?;
        let sent = cluster.request_counts().await?.since(&before);
        ensure!(sent.get("LIST", "secrets") == 0 && sent.writes() == 0, "{sent:?}");
        ensure!(asked.code == 0 && asked.json()? == page, "{policy}: {asked:?} {page}");
    }
    let line = format!("plan uid:{} {url}", root.uid);
    let file = tempfile::NamedTempFile::new()?;
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} --fail-above 20")).await?;
    ensure!(ran.code == 1 && ran.out.contains("The brake of the collector engages: "), "{ran:?}");
    ensure!(ran.out.contains("more objects; -o wide lists them"), "{ran:?}");
    for (flag, says) in [
        ("--kinds secrets", "--kinds and --exclude"),
        (&format!("--config {}", file.path().display()) as &str, "--config has the limits"),
    ] {
        let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} {flag}")).await?;
        ensure!(ran.code == 2 && ran.err.contains(says), "{flag}: {ran:?}");
    }
    for (query, status) in [("uid=nobody", 404), ("policy=orphan", 400), ("uid=a&policy=none", 400)] {
        let page = collector.get_debug(&format!("/debug/plan?{query}")).await?;
        ensure!(page.status == status, "{query}: {page:?}");
    }
    cluster.set_finalizers(&held, &[]).await?;
    collector.stop().await?;
    cluster.delete(&root, Policy::Orphan).await?;
    stage.clear().await
}
