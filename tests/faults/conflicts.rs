//! DELETEs that are answered with 409 although nothing relevant has changed.

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::proxy::{Fault, HeldRequest, Matcher, Reply, Request, Verb};
use kube_gc_testkit::{Obj, Policy};

kube_gc_testkit::scenarios! {
    a_changed_label_costs_one_more_delete_at_the_new_version,
    after_five_conflicts_over_unrelated_fields_only_the_uid_is_a_precondition,
    a_conflict_without_a_visible_cause_is_retried_with_backoff,
    an_object_that_a_client_deletes_before_our_delete_keeps_the_policy_of_the_client,
    references_to_absent_owners_are_removed_at_the_version_just_read,
}

/// Sets another label on an object and lets the held request pass.
async fn churn(stage: &Stage, object: &Obj, count: usize, held: HeldRequest) -> Result<(Obj, Request)> {
    let now = stage.cluster.set_label(object, "churn", &count.to_string()).await?;
    let request = held.request.clone();
    held.pass();
    Ok((now, request))
}

/// Only unrelated fields changed, so the collector sends the DELETE again at once, with the version
/// that it just read (rule 4.26). Fails if the collector re-evaluates the object, which would cost
/// reads of the owner and the object, or if it backs off.
async fn a_changed_label_costs_one_more_delete_at_the_new_version() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let dependent = ns.secret("dependent").owned_by(&owner).create().await?;
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &dependent));
    stage.cluster.delete(&owner, Policy::Background).await?;

    let (changed, first) = churn(&stage, &dependent, 0, deletes.next().await?).await?;
    ensure!(first.precondition_version() == Some(&dependent.resource_version), "{first}");
    let second = deletes.next().await?;
    ensure!(second.request.precondition_version() == Some(&changed.resource_version), "{}", second.request);
    ensure!(second.request.precondition_uid() == Some(&dependent.uid), "{}", second.request);
    second.pass();
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&dependent]).await?;
    ensure!(stage.of(Verb::Delete, &dependent).len() == 2);
    ensure!(stage.of(Verb::Get, &dependent).len() == 1, "one read after one conflict");
    collector.stop().await
}

/// After five such conflicts in a row, the DELETE carries only the uid (rule 4.27). Without this
/// rule no DELETE would ever succeed.
async fn after_five_conflicts_over_unrelated_fields_only_the_uid_is_a_precondition() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let dependent = ns.secret("dependent").owned_by(&owner).create().await?;
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &dependent));
    stage.cluster.delete(&owner, Policy::Background).await?;

    let mut expected = dependent.resource_version.clone();
    for count in 0..5 {
        let (changed, request) = churn(&stage, &dependent, count, deletes.next().await?).await?;
        ensure!(request.precondition_version() == Some(&expected), "{count}: {request}, not {expected}");
        expected = changed.resource_version;
    }
    let (_, last) = churn(&stage, &dependent, 5, deletes.next().await?).await?;
    ensure!(last.precondition_version().is_none(), "{last}");
    ensure!(last.precondition_uid() == Some(&dependent.uid), "{last}");
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&dependent]).await?;
    ensure!(stage.of(Verb::Delete, &dependent).len() == 6);
    collector.stop().await
}

/// If the DELETE carried only the uid, or if the version is still the same, the collector can do
/// nothing about the cause of a 409. It backs off and re-evaluates the object (rule 4.28). Fails if
/// the collector repeats the same request: the next DELETE must carry a version again.
async fn a_conflict_without_a_visible_cause_is_retried_with_backoff() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let dependent = ns.secret("dependent").owned_by(&owner).create().await?;
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &dependent));
    stage.cluster.delete(&owner, Policy::Background).await?;

    let mut changed = dependent.clone();
    for count in 0..5 {
        (changed, _) = churn(&stage, &dependent, count, deletes.next().await?).await?;
    }
    let uid_alone = deletes.next().await?;
    ensure!(uid_alone.request.precondition_version().is_none(), "{}", uid_alone.request);
    // Otherwise the next decision would use an older version, which causes a conflict.
    stage.seen(&collector, &changed).await?;
    uid_alone.end(Fault::Instead(Reply::conflict()));
    let afresh = deletes.next().await?;
    // The answer is 409 although the version is right.
    ensure!(afresh.request.precondition_version() == Some(&changed.resource_version), "{}", afresh.request);
    afresh.end(Fault::Instead(Reply::conflict()));
    let again = deletes.next().await?;
    ensure!(again.request.precondition_version().is_some(), "{}", again.request);
    again.pass();
    drop(deletes);
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&dependent]).await?;
    let metrics = collector.metrics().await?;
    let backed_off = metrics.get(r#"kube_gc_delete_conflicts_total{next="backoff"}"#);
    ensure!(backed_off.is_some_and(|count| *count >= 2.0), "counted: {backed_off:?}");
    collector.stop().await
}

/// After a 409, an object that is being deleted is left alone (rule 4.24). Fails if the
/// collector deletes in its own way what a client has just deleted: with Background it
/// would remove the finalizer `orphan`.
async fn an_object_that_a_client_deletes_before_our_delete_keeps_the_policy_of_the_client() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let middle = ns.secret("middle").owned_by(&owner).create().await?;
    let leaf = ns.configmap("leaf").owned_by(&middle).create().await?;
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &middle));
    stage.cluster.delete(&owner, Policy::Background).await?;

    let held = deletes.next().await?;
    stage.cluster.delete(&middle, Policy::Orphan).await?;
    held.pass();
    drop(deletes);
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&middle]).await?;
    stage.assert_owners(&leaf, &[]).await?;
    ensure!(stage.of(Verb::Delete, &middle).len() == 1);
    collector.stop().await
}

/// An object that changes faster than its events arrive still loses the reference to an absent
/// owner (rule 6.5). Fails if the version after a conflict comes from the graph only: no PATCH
/// would ever succeed.
async fn references_to_absent_owners_are_removed_at_the_version_just_read() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let (owner, kept) = (ns.configmap("owner").create().await?, ns.configmap("kept").create().await?);
    let dependent = ns.secret("dependent").owned_by(&owner).owned_by(&kept).create().await?;
    stage.cluster.settled(&collector).await?;
    let events = stage.proxy.hold_events(Matcher::resource("secrets").within(ns.name()));
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &dependent));
    stage.cluster.delete(&owner, Policy::Background).await?;

    let mut expected = dependent.resource_version.clone();
    for count in 0..3 {
        let (changed, request) = churn(&stage, &dependent, count, patches.next().await?).await?;
        ensure!(request.patched_version() == Some(&expected), "{count}: {request}, not {expected}");
        expected = changed.resource_version;
    }
    let last = patches.next().await?;
    ensure!(last.request.patched_version() == Some(&expected), "{}, not {expected}", last.request);
    last.pass();
    stage.proxy.answered(4, &Matcher::object(Verb::Patch, &dependent)).await?;
    stage.assert_owners(&dependent, &[&kept]).await?;
    drop((events, patches));
    stage.cluster.settled(&collector).await?;
    stage.assert_owners(&dependent, &[&kept]).await?;
    ensure!(stage.of(Verb::Get, &dependent).len() == 3, "one read after each conflict");
    collector.stop().await
}
