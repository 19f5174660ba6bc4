//! The preconditions of every write, which bind it to the state of its decision.

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::proxy::Verb;
use kube_gc_testkit::{Policy, Scope};

kube_gc_testkit::scenarios! {
    every_delete_has_the_uid_and_the_version_of_its_decision,
    deletes_of_a_foreground_deletion_have_uid_and_version_too,
    a_patch_after_a_verdict_has_the_version_of_its_decision,
    patches_that_orphan_have_the_uid_and_no_version,
}

/// A DELETE carries `uid` and `resourceVersion` (rule 4.21). Fails if either is missing. Nothing
/// else changes the objects, so the scenario also fails if the DELETE carries another version than
/// the watch showed.
async fn every_delete_has_the_uid_and_the_version_of_its_decision() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let mut objects = vec![ns.pod("pod").owned_by(&owner).create().await?];
    for count in 0..3 {
        let above = ns.secret(format!("level-1-{count}")).owned_by(&owner).blocking().create().await?;
        // Types are watched one by one. If the watch shows an owner after its dependent, the owner
        // is looked up.
        stage.cluster.settled(&collector).await?;
        objects.push(ns.configmap(format!("level-2-{count}")).owned_by(&above).create().await?);
        objects.push(above);
    }
    stage.cluster.delete(&owner, Policy::Background).await?;
    stage.cluster.settled(&collector).await?;

    stage.cluster.assert_gone(&objects).await?;
    for object in &objects {
        let delete = stage.only(Verb::Delete, object)?;
        ensure!(delete.precondition_uid() == Some(&object.uid), "{delete}");
        ensure!(delete.precondition_version() == Some(&object.resource_version), "{delete}");
        ensure!(delete.policy() == "Background", "{delete}");
        // Steady state: one request for each collected object.
        ensure!(stage.of(Verb::Get, object).is_empty(), "{object} was read first");
    }
    collector.stop().await
}

/// The same in the foreground: a client deletes the owner, and the collector only removes the
/// finalizer of the owner (rule 4.21).
async fn deletes_of_a_foreground_deletion_have_uid_and_version_too() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let middle = ns.secret("middle").owned_by(&owner).blocking().create().await?;
    let leaf = ns.configmap("leaf").owned_by(&middle).blocking().create().await?;
    // Types are watched one by one: an owner waits for the dependents that the watches have shown.
    stage.cluster.settled(&collector).await?;
    stage.cluster.delete(&owner, Policy::Foreground).await?;
    stage.cluster.settled(&collector).await?;

    stage.cluster.assert_gone([&owner, &middle, &leaf]).await?;
    ensure!(stage.of(Verb::Delete, &owner).is_empty(), "the collector deleted {owner}");
    for (object, policy) in [(&middle, "Foreground"), (&leaf, "Background")] {
        let delete = stage.only(Verb::Delete, object)?;
        ensure!(delete.precondition_uid() == Some(&object.uid), "{delete}");
        ensure!(delete.precondition_version() == Some(&object.resource_version), "{delete}");
        ensure!(delete.policy() == policy, "{delete}");
    }
    for object in [&owner, &middle] {
        // Finalizer patches carry both (rule 6.6).
        let patch = stage.only(Verb::Patch, object)?;
        ensure!(patch.is_of_finalizers() && patch.patched_uid() == Some(&object.uid), "{patch}");
        ensure!(patch.patched_version().is_some(), "{patch}");
    }
    collector.stop().await
}

/// Every patch that follows from a decision carries the resource version of the decision (rule
/// 4.22). Fails if the patch carries no version, or that of a later read.
async fn a_patch_after_a_verdict_has_the_version_of_its_decision() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let crd = stage.cluster.crd("gizmos.example.com", Scope::Namespaced, &["v1"]).await?;
    let collector = stage.collector().await?;
    let (keeps, goes) = (ns.configmap("keeps").create().await?, ns.configmap("goes").create().await?);
    let waits = ns.configmap("waits").finalizer("example.com/hold").create().await?;
    let of_absent = ns.secret("of-absent").owned_by(&keeps).owned_by(&goes).create().await?;
    let of_waiting = ns.secret("of-waiting").owned_by(&waits).blocking().owned_by(&keeps).create().await?;
    let custom = ns.object(crd.resource(), "custom").owned_by(&goes).owned_by(&keeps).create().await?;
    stage.cluster.settled(&collector).await?;
    stage.cluster.delete(&goes, Policy::Background).await?;
    stage.cluster.delete(&waits, Policy::Foreground).await?;
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
    ensure!(stage.cluster.fresh(&waits).await?.finalizers() == ["example.com/hold"]);
    stage.cluster.set_finalizers(&waits, &[]).await?;
    stage.cluster.settled(&collector).await?;
    crd.remove().await?;
    collector.stop().await
}

/// A patch that orphans carries the dependent's uid, so that another object of the same name is
/// left alone. It carries no version: the dependent loses the reference whatever else changes about
/// it (rule 5.2).
async fn patches_that_orphan_have_the_uid_and_no_version() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let mut dependents = Vec::new();
    for count in 0..5 {
        dependents.push(ns.secret(format!("dependent-{count}")).owned_by(&owner).create().await?);
    }
    stage.cluster.settled(&collector).await?;
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    stage.cluster.settled(&collector).await?;

    stage.cluster.assert_gone([&owner]).await?;
    for dependent in &dependents {
        stage.assert_owners(dependent, &[]).await?;
        let patch = stage.only(Verb::Patch, dependent)?;
        ensure!(patch.patched_uid() == Some(&dependent.uid), "{patch}");
        ensure!(patch.patched_version().is_none(), "{patch}");
    }
    let patch = stage.only(Verb::Patch, &owner)?;
    ensure!(patch.is_of_finalizers() && patch.patched_uid() == Some(&owner.uid), "{patch}");
    ensure!(patch.patched_version().is_some(), "{patch}");
    collector.stop().await
}
