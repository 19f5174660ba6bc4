//! Cluster-scoped owners.

use anyhow::{Result, ensure};

use crate::conformance::outcome::{Rest, reference, unused_uid};
use crate::conformance::stage::{HOLD, Stage, lives_with};
use kube_gc_testkit::Policy;

kube_gc_testkit::scenarios! {
    a_namespace_does_not_own_its_objects,
    dependents_are_evaluated_again_when_an_owner_no_longer_waits,
}

/// A namespace does not own the objects in it (rule 1.3). Another controller empties a
/// namespace that is deleted.
async fn a_namespace_does_not_own_its_objects() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let collector = stage.collector().await?;
    let ns = cluster.namespace().await?;
    let inside = ns.configmap("inside").create().await?;
    let owned = ns.configmap("owned").owned_by(&inside).create().await?;
    cluster.delete(ns.as_object(), Policy::Background).await?;
    stage.settled(&collector, Rest::Empty).await?;
    cluster.assert_kept([ns.as_object(), &inside, &owned]).await?;
    collector.stop().await?;
    ns.finalize().await?;
    stage.clear().await
}

/// While one owner waits, no decision about its dependent is possible. The decision follows when
/// another client's finalizer keeps that owner, which makes it solid again (rule 3.16). Fails if
/// only the dependents that wait with the owner are queued: the reference to the absent owner would
/// stay.
async fn dependents_are_evaluated_again_when_an_owner_no_longer_waits() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let collector = stage.collector().await?;
    let ns = cluster.namespace().await?;
    let node = |name: &str| cluster.node(format!("{}-{name}", ns.name()));
    let owner = node("owner").finalizer(HOLD).create().await?;
    let holder = node("holder").owned_by(&owner).blocking().finalizer(HOLD).create().await?;
    let config = ns.configmap("config").create().await?;
    cluster.settled(&collector).await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    // A namespaced object can never own a cluster-scoped one, so nothing is done and nothing is
    // retried.
    let never = reference("v1", "Node", "never", &unused_uid());
    let item = node("item").owned_by(&config).owned_by(&owner).owner_reference(never).create().await?;
    cluster.settled(&collector).await?;
    let before = cluster.fresh(&item).await?;
    ensure!(before.resource_version == item.resource_version, "it was written to: {}", before.raw);

    cluster.set_finalizers(&holder, &[]).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&holder]).await?;
    ensure!(cluster.fresh(&owner).await?.finalizers() == [HOLD], "{owner} still waits for a dependent");
    lives_with(cluster, &item, &[&config, &owner]).await?;

    for object in [&owner, &item] {
        cluster.set_finalizers(object, &[]).await?;
    }
    cluster.settled(&collector).await?;
    cluster.delete(&item, Policy::Background).await?;
    collector.stop().await
}
