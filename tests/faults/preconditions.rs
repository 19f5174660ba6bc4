//! The preconditions of every write, which bind it to the state of its decision.

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::proxy::Verb;
use kube_gc_testkit::{Policy, Scope};

kube_gc_testkit::scenarios! {
    every_delete_has_the_uid_and_the_version_of_its_decision,
    every_patch_has_the_uid_and_after_a_verdict_the_version,
}

/// A DELETE carries `uid` and `resourceVersion` (rule 4.21). Fails if either is missing. Nothing
/// else changes the objects, so the scenario also fails if the DELETE carries another version than
/// the watch showed. In the foreground, the collector only removes the finalizer of the owner, which the
/// client deletes.
async fn every_delete_has_the_uid_and_the_version_of_its_decision() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let waits = ns.configmap("waits").create().await?;
    let middle = ns.secret("middle").owned_by(&waits).blocking().create().await?;
    let mut deleted = vec![
        (ns.pod("pod").owned_by(&owner).create().await?, "Background"),
        (ns.configmap("leaf").owned_by(&middle).blocking().create().await?, "Background"),
        (middle, "Foreground"),
    ];
    for count in 0..3 {
        let above = ns.secret(format!("level-1-{count}")).owned_by(&owner).blocking().create().await?;
        // Types are watched one by one. If the watch shows an owner after its dependent, the owner
        // is looked up.
        stage.cluster.settled(&collector).await?;
        let below = ns.configmap(format!("level-2-{count}")).owned_by(&above).create().await?;
        deleted.extend([(above, "Background"), (below, "Background")]);
    }
    stage.cluster.settled(&collector).await?;
    stage.cluster.delete(&owner, Policy::Background).await?;
    stage.cluster.delete(&waits, Policy::Foreground).await?;
    stage.cluster.settled(&collector).await?;

    for (object, policy) in &deleted {
        stage.cluster.assert_gone([object]).await?;
        let delete = stage.only(Verb::Delete, object)?;
        ensure!(delete.precondition_uid() == Some(&object.uid), "{delete}");
        ensure!(delete.precondition_version() == Some(&object.resource_version), "{delete}");
        ensure!(delete.policy() == *policy, "{delete}");
        // Steady state: one request for each collected object.
        let is_read = !stage.of(Verb::Get, object).is_empty();
        ensure!(!is_read || *policy == "Foreground", "{object} was read first");
    }
    ensure!(stage.of(Verb::Delete, &waits).is_empty(), "the collector deleted {waits}");
    for object in [&waits, &deleted[2].0] {
        // Finalizer patches carry both (rule 6.6).
        let patch = stage.only(Verb::Patch, object)?;
        ensure!(patch.is_of_finalizers() && patch.patched_uid() == Some(&object.uid), "{patch}");
        ensure!(patch.patched_version().is_some(), "{patch}");
    }
    collector.stop().await
}

/// A patch that follows from a verdict carries the resource version of the decision (rule 4.22). Fails if it
/// carries none, or that of a later read. A patch that orphans carries only the dependent's uid, so that
/// another object of the same name is left alone, and the dependent loses the reference whatever else
/// changes about it (rule 5.2). A finalizer patch carries both (rule 6.6).
async fn every_patch_has_the_uid_and_after_a_verdict_the_version() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let crd = stage.cluster.crd("gizmos.example.com", Scope::Namespaced, &["v1"]).await?;
    let collector = stage.collector().await?;
    let (keeps, goes) = (ns.configmap("keeps").create().await?, ns.configmap("goes").create().await?);
    let waits = ns.configmap("waits").finalizer("example.com/hold").create().await?;
    let orphans = ns.configmap("orphans").create().await?;
    let of_absent = ns.secret("of-absent").owned_by(&keeps).owned_by(&goes).create().await?;
    let of_waiting = ns.secret("of-waiting").owned_by(&waits).blocking().owned_by(&keeps).create().await?;
    let custom = ns.object(crd.resource(), "custom").owned_by(&goes).owned_by(&keeps).create().await?;
    let orphan = ns.secret("orphan").owned_by(&orphans).create().await?;
    stage.cluster.settled(&collector).await?;
    stage.cluster.delete(&goes, Policy::Background).await?;
    stage.cluster.delete(&waits, Policy::Foreground).await?;
    stage.cluster.delete(&orphans, Policy::Orphan).await?;
    stage.cluster.settled(&collector).await?;

    for object in [&of_absent, &of_waiting, &custom] {
        stage.assert_owners(object, &[&keeps]).await?;
        for patch in stage.of(Verb::Patch, object) {
            ensure!(patch.patched_uid() == Some(&object.uid), "{patch}");
            ensure!(patch.patched_version() == Some(&object.resource_version), "{patch}");
        }
        ensure!(!stage.of(Verb::Patch, object).is_empty());
        ensure!(stage.of(Verb::Delete, object).is_empty(), "the collector tried to delete {object}");
    }
    stage.assert_owners(&orphan, &[]).await?;
    let patch = stage.only(Verb::Patch, &orphan)?;
    ensure!(patch.patched_uid() == Some(&orphan.uid) && patch.patched_version().is_none(), "{patch}");
    let patch = stage.only(Verb::Patch, &orphans)?;
    ensure!(patch.is_of_finalizers() && patch.patched_uid() == Some(&orphans.uid), "{patch}");
    ensure!(patch.patched_version().is_some(), "{patch}");
    ensure!(stage.cluster.fresh(&waits).await?.finalizers() == ["example.com/hold"]);
    stage.cluster.set_finalizers(&waits, &[]).await?;
    stage.cluster.settled(&collector).await?;
    crd.remove().await?;
    collector.stop().await
}
