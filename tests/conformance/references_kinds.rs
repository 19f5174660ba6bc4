//! References to types that appear, disappear, and change their versions.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::conformance::outcome::{
    Order, Outcome, Rest, Setting, in_both_orders, reference, reference_but, reported_as_failing, uids,
    unused_uid,
};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, Crd, Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    dependents_of_an_unknown_kind_wait_until_it_is_served,
    dependents_of_a_recreated_type_are_decided_correctly,
    a_reference_may_use_any_served_version_and_no_other,
    objects_are_collected_after_the_preferred_version_is_dropped,
}

/// Discovery runs on demand only, so a decision shows that the new type was noticed, however slow
/// the machine is.
const NO_REGULAR_LOOK: &str = "[discovery]\ninterval = \"1h\"\n";
/// The time limit for decisions after a type is served. It takes half a second, and many times that
/// on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Waits until the API server lists a type, and returns the time.
async fn listed(cluster: &Cluster, path: &str) -> Result<Instant> {
    poll(path, async || Ok(cluster.send("GET", path, None, None).await.is_ok())).await?;
    Ok(Instant::now())
}

/// Waits until all are gone. Fails if that takes too long after the type was served.
async fn gone_soon(cluster: &Cluster, objects: &[Obj], served: Instant) -> Result<()> {
    poll("the garbage to go", async || Ok(cluster.assert_gone(objects).await.is_ok())).await?;
    let took = served.elapsed();
    ensure!(took < SOON, "{took:?} after the type was served");
    Ok(())
}

/// Changes a CRD by a JSON patch.
async fn change(cluster: &Cluster, crd: &Crd, patch: Value) -> Result<()> {
    cluster
        .send("PATCH", &crd.definition().path(), Some("application/json-patch+json"), Some(&patch))
        .await?;
    Ok(())
}

/// Serves the only version of a type or stops serving it. Its objects stay stored.
async fn serve(cluster: &Cluster, crd: &Crd, served: bool) -> Result<()> {
    let replace = json!({ "op": "replace", "path": "/spec/versions/0/served", "value": served });
    change(cluster, crd, json!([replace])).await
}

/// Waits until a version of a type is no longer served.
async fn unserved(cluster: &Cluster, path: &str) -> Result<()> {
    poll(&format!("{path} to go"), async || Ok(cluster.send("GET", path, None, None).await.is_err())).await
}

/// Waits until the collector, if it runs, knows that a version is no longer served, according to
/// its report on an object with a reference to that version.
async fn noticed(scene: &Setting<'_>, object: &Obj, version: &str) -> Result<()> {
    let Some(collector) = scene.collector() else { return Ok(()) };
    poll(&format!("{version} to be missed"), async || {
        Ok(reported_as_failing(collector, &[object], version).await.is_ok())
    })
    .await
}

/// A dependent of an unknown kind is kept and reported (rule 4.11), and collected at once
/// when the kind is served (rule 2.3).
async fn dependents_of_an_unknown_kind_wait_until_it_is_served() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    for order in Order::BOTH {
        let early = stage.early(order, NO_REGULAR_LOOK).await?;
        let ns = cluster.namespace().await?;
        let live = ns.configmap("live").create().await?;
        let never = |kind| reference("late.example.com/v1", kind, "never", &unused_uid());
        let waiting = create_all([
            ns.secret("sole").owner_reference(never("Late")),
            ns.configmap("blocking").owner_reference(never("Late")).blocking(),
            ns.pod("lower-case").owner_reference(never("late")),
        ])
        .await?;
        let with_owner =
            ns.secret("with-owner").owner_reference(never("Late")).owned_by(&live).create().await?;
        let other_kind = ns.secret("other-kind").owner_reference(never("Other")).create().await?;

        let all = waiting.iter().chain([&with_owner, &other_kind, &live]).cloned();
        let unknown = Outcome { untouched: all.collect(), ..Outcome::default() };
        let mut running = stage.late(early, NO_REGULAR_LOOK).await?;
        for round in 0..2 {
            stage.settled(&running, Rest::Parked).await?;
            unknown.check(cluster).await?;
            let parked: Vec<&Obj> = waiting.iter().chain([&other_kind]).collect();
            reported_as_failing(&running, &parked, "late.example.com").await?;
            poll("the metric", async || Ok(running.metric("kube_gc_queue_parked").await? >= 4.0)).await?;
            if round == 0 {
                running.stop().await?;
                running = stage.collector_with(Options::config(NO_REGULAR_LOOK)).await?;
            }
        }

        let (crd, served) = tokio::join!(
            cluster.crd("lates.late.example.com", Scope::Namespaced, &["v1"]),
            listed(cluster, "/apis/late.example.com/v1/lates"),
        );
        gone_soon(cluster, &waiting, served?).await?;
        crd?;
        stage.settled(&running, Rest::Parked).await?;
        Outcome {
            kept: vec![(with_owner, uids([&live]))],
            untouched: vec![other_kind, live],
            ..Outcome::default()
        }
        .check(cluster)
        .await?;
        running.stop().await?;
        stage.clear().await?;
    }
    Ok(())
}

/// Nothing follows from the absence of a type. When it is served again, the dependents of
/// its objects are kept and the others are deleted within two seconds (rule 2.12).
async fn dependents_of_a_recreated_type_are_decided_correctly() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    for order in Order::BOTH {
        let first = stage.early(order, NO_REGULAR_LOOK).await?;
        let ns = cluster.namespace().await?;
        let lates = cluster.crd("lates.late.example.com", Scope::Namespaced, &["v1"]).await?;
        let path = "/apis/late.example.com/v1/lates";
        let owner = ns.object(lates.resource(), "owner").create().await?;
        let early = ns.secret("early").owned_by(&owner).create().await?;
        if let Some(collector) = &first {
            cluster.settled(collector).await?;
        }
        serve(cluster, &lates, false).await?;
        unserved(cluster, path).await?;
        let valid = ns.secret("valid").owned_by(&owner).blocking().create().await?;
        let garbage = create_all([
            ns.secret("never").owner_reference(reference_but(&owner, "uid", &unused_uid())),
            ns.configmap("misnamed").owner_reference(reference_but(&owner, "name", "other")),
        ])
        .await?;

        let collector = stage.late(first, NO_REGULAR_LOOK).await?;
        stage.settled(&collector, Rest::Parked).await?;
        let all = [&early, &valid].into_iter().chain(&garbage).cloned().collect();
        Outcome { untouched: all, ..Outcome::default() }.check(cluster).await?;

        let (changed, served) = tokio::join!(serve(cluster, &lates, true), listed(cluster, path));
        changed?;
        gone_soon(cluster, &garbage, served?).await?;
        stage.settled(&collector, Rest::Empty).await?;
        Outcome { untouched: vec![owner.clone(), early.clone(), valid.clone()], ..Outcome::default() }
            .check(cluster)
            .await?;
        // It can own objects, too.
        cluster.delete(&owner, Policy::Foreground).await?;
        stage.settled(&collector, Rest::Empty).await?;
        cluster.assert_gone([&owner, &early, &valid]).await?;
        collector.stop().await?;
        stage.clear().await?;
    }
    Ok(())
}

/// A reference may name any served version. A dependent that names another version is
/// kept and reported, even when its owner is gone (rule 1.5).
async fn a_reference_may_use_any_served_version_and_no_other() -> Result<()> {
    in_both_orders(Rest::Parked, async |scene| {
        let cluster = scene.cluster();
        let ns = cluster.namespace().await?;
        let widgets =
            cluster.crd("widgets.example.com", Scope::Namespaced, &["v1", "v1beta1", "v1alpha1"]).await?;
        let owners = create_all(["live", "dead"].map(|name| ns.object(widgets.resource(), name))).await?;
        let mut outcome = Outcome { untouched: vec![owners[0].clone()], ..Outcome::default() };
        for owner in &owners {
            let at = |version: &str| reference_but(owner, "apiVersion", &format!("example.com/{version}"));
            let fine = create_all(["v1", "v1beta1", "v1alpha1"].into_iter().flat_map(|version| {
                [
                    ns.secret(format!("{version}-{}", owner.name)).owner_reference(at(version)).blocking(),
                    ns.object(&widgets.resource_at(version), format!("{version}-of-{}", owner.name))
                        .owner_reference(at(version)),
                ]
            }))
            .await?;
            let unresolved =
                ns.secret(format!("v2-{}", owner.name)).owner_reference(at("v2")).create().await?;
            outcome.untouched.push(unresolved);
            match owner.name.as_str() {
                "live" => outcome.untouched.extend(fine),
                _ => outcome.gone.extend(fine),
            }
        }
        scene.caught_up().await?;
        if let Some(collector) = scene.collector() {
            let unresolved: Vec<&Obj> =
                outcome.untouched.iter().filter(|object| object.name.starts_with("v2-")).collect();
            ensure!(unresolved.len() == 2);
            reported_as_failing(collector, &unresolved, "example.com/v2").await?;
        }
        cluster.delete(&owners[1], Policy::Foreground).await?;
        outcome.gone.push(owners[1].clone());
        Ok(outcome)
    })
    .await
}

/// The preferred version, which was the watched one, is dropped. Objects are owned and
/// collected through the remaining version, and a dependent that names the dropped one is
/// kept (rule 2.13).
async fn objects_are_collected_after_the_preferred_version_is_dropped() -> Result<()> {
    in_both_orders(Rest::Parked, async |scene| {
        let cluster = scene.cluster();
        let ns = cluster.namespace().await?;
        let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1", "v2"]).await?;
        let root = ns.configmap("root").create().await?;
        let owned = create_all([
            ns.object(widgets.resource(), "owned-1").owned_by(&root).blocking(),
            ns.object(&widgets.resource_at("v2"), "owned-2").owned_by(&root),
        ])
        .await?;
        let owner = ns.object(&widgets.resource_at("v2"), "owner").create().await?;
        let through = |version: &str| reference_but(&owner, "apiVersion", &format!("example.com/{version}"));
        let through_left = ns.secret("v1").owner_reference(through("v1")).blocking().create().await?;
        let through_dropped = ns.secret("v2").owner_reference(through("v2")).create().await?;
        scene.caught_up().await?;

        change(cluster, &widgets, json!([{ "op": "remove", "path": "/spec/versions/1" }])).await?;
        unserved(cluster, "/apis/example.com/v2/widgets").await?;
        noticed(scene, &through_dropped, "example.com/v2").await?;
        let live = ns.object(widgets.resource(), "live").create().await?;
        let late = ns.object(widgets.resource(), "late").owned_by(&root).create().await?;
        let of_live = ns.configmap("of-live").owned_by(&live).create().await?;
        scene.caught_up().await?;

        // Read in the remaining version, because `owner` was created in the other one.
        let owner_now = cluster.list(widgets.resource(), Some(ns.name())).await?;
        let owner_now = owner_now.into_iter().find(|object| object.uid == owner.uid);
        let owner = owner_now.ok_or_else(|| anyhow::anyhow!("the owner is gone"))?;
        cluster.delete(&root, Policy::Foreground).await?;
        cluster.delete(&owner, Policy::Background).await?;
        let mut gone = vec![root, owner, late, through_left];
        for object in owned {
            gone.push(Obj { resource: widgets.resource().clone(), ..object });
        }
        Ok(Outcome { gone, untouched: vec![live, of_live, through_dropped], ..Outcome::default() })
    })
    .await
}
