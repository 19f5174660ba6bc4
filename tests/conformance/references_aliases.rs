//! Objects that are served in two groups, as on old servers.

use anyhow::{Result, ensure};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{ApiResource, GroupVersionKind};
use serde_json::json;

use crate::conformance::outcome::{Order, Outcome, reference};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::{Obj, Policy, Turn};

kube_gc_testkit::scenarios! {
    an_object_served_under_two_resources_is_one_object,
}

/// An object that is served in two groups, such as an Ingress on old servers, is one
/// object: one request deletes it, it counts as one dependent, and it is not a collision
/// (rule 3.2).
async fn an_object_served_under_two_resources_is_one_object() -> Result<()> {
    let stage = Stage::set_on(Turn::of_old().await?).await?;
    let cluster = &stage.cluster;
    let new = ApiResource::erase::<Ingress>(&());
    let old = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("extensions", "v1beta1", "Ingress"),
        "ingresses",
    );
    if cluster.list(&old, None).await.is_err() {
        ensure!(stage.plane.embedded().is_none(), "the embedded server serves Ingresses in one group only");
        eprintln!("this API server serves no type in two groups");
        return Ok(());
    }
    for order in Order::BOTH {
        // Ten dependents, and the three that the client deletes. One watch may show a deletion
        // before its answer arrives, so that the view of the other group is deleted in vain; but
        // not as a rule.
        let few = 13..20;
        let mut deletions = play(&stage, &new, order).await?;
        if !few.contains(&deletions) {
            deletions = play(&stage, &new, order).await?;
        }
        ensure!(few.contains(&deletions), "{deletions} deletions");
    }
    Ok(())
}

/// Deletes owners and dependents of the type under all policies, and returns the number of DELETEs
/// that were sent.
async fn play(stage: &Stage, new: &ApiResource, order: Order) -> Result<u64> {
    let cluster = &stage.cluster;
    let early = stage.early(order, "").await?;
    let ns = cluster.namespace().await?;
    let spec = json!({ "defaultBackend": { "service": { "name": "x", "port": { "number": 80 } } } });
    let ingress = |name: String| ns.object(new, name).field("spec", spec.clone());
    let [background, foreground, orphan] = ["background", "foreground", "orphan"];
    let roots = create_all([background, foreground, orphan].map(|name| ns.configmap(name))).await?;
    let mut dependents = Vec::new();
    for root in &roots {
        let of = |n| ingress(format!("{}-{n}", root.name)).owned_by(root).blocking();
        dependents.push(create_all((0..5).map(of)).await?);
    }
    // Owners, referred to in either group.
    let owners =
        create_all([background, foreground, orphan].map(|name| ingress(format!("owner-{name}")))).await?;
    let mut owned = Vec::new();
    for owner in &owners {
        let by_old = reference("extensions/v1beta1", "Ingress", &owner.name, &owner.uid);
        owned.push(
            create_all([
                ns.secret(format!("{}-new", owner.name)).owned_by(owner).blocking(),
                ns.secret(format!("{}-old", owner.name)).owner_reference(by_old.clone()).blocking(),
                ns.secret(format!("{}-both", owner.name)).owned_by(owner).owner_reference(by_old),
            ])
            .await?,
        );
    }
    let collector = stage.late(early, "").await?;
    cluster.settled(&collector).await?;
    let untouched = dependents.iter().chain(&owned).flatten().chain(&owners).cloned().collect();
    Outcome { untouched, ..Outcome::default() }.check(cluster).await?;

    let before = cluster.request_counts().await?;
    for (number, policy) in [Policy::Background, Policy::Foreground, Policy::Orphan].into_iter().enumerate() {
        cluster.delete(&roots[number], policy).await?;
        cluster.delete(&owners[number], policy).await?;
    }
    cluster.settled(&collector).await?;
    let released = |objects: &[Obj]| -> Vec<(Obj, Vec<String>)> {
        objects.iter().map(|object| (object.clone(), Vec::new())).collect()
    };
    Outcome {
        gone: dependents[..2]
            .iter()
            .chain(&owned[..2])
            .flatten()
            .chain(&roots)
            .chain(&owners)
            .cloned()
            .collect(),
        kept: released(&dependents[2]).into_iter().chain(released(&owned[2])).collect(),
        ..Outcome::default()
    }
    .check(cluster)
    .await?;
    let since = cluster.request_counts().await?.since(&before);
    let groups = ["ingresses.extensions", "ingresses.networking.k8s.io"];
    let deletions = groups.iter().map(|resource| since.get("DELETE", resource)).sum();
    ensure!(collector.metric("kube_gc_uid_collisions_total").await? == 0.0);
    ensure!(collector.logged("two objects have the same uid").is_empty());
    collector.stop().await?;
    stage.clear().await?;
    Ok(deletions)
}
