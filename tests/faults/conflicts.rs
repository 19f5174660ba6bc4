//! A client changes objects between a decision and the write that follows.

use anyhow::{Result, ensure};

use crate::faults::stage::{Stage, requests};
use kube_gc_testkit::proxy::{Fault, HeldRequest, Matcher, Reply, Request, Verb};
use kube_gc_testkit::{Obj, Policy};

kube_gc_testkit::scenarios! {
    an_owner_added_between_decision_and_delete_saves_the_object,
    an_orphan_finalizer_added_between_decision_and_delete_is_honoured,
    after_five_conflicts_over_unrelated_fields_only_the_uid_is_a_precondition,
    an_object_that_a_client_deletes_before_our_delete_keeps_the_policy_of_the_client,
    references_to_absent_owners_are_removed_at_the_version_just_read,
}

/// A solid owner is added between the decision and the DELETE, and saves the object (rules 4.25 and
/// 10.1). Fails if the DELETE carries no resource version, or if the collector repeats it after the
/// 409.
async fn an_owner_added_between_decision_and_delete_saves_the_object() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let (goes, saviour) = (ns.configmap("goes").create().await?, ns.configmap("saviour").create().await?);
    let dependent = ns.secret("dependent").owned_by(&goes).create().await?;
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &dependent));
    stage.cluster.delete(&goes, Policy::Background).await?;

    let held = deletes.next().await?;
    let owners = [goes.reference(), saviour.reference()];
    let saved = stage.cluster.set_owner_references(&dependent, &owners).await?;
    // Otherwise the next decision may use the old state of the graph, and be rejected again.
    stage.seen(&collector, &saved).await?;
    held.pass();
    drop(deletes);
    stage.cluster.settled(&collector).await?;
    stage.assert_owners(&dependent, &[&saviour]).await?;
    let answers = stage.proxy.all(&Matcher::object(Verb::Delete, &dependent));
    ensure!(answers.len() == 1 && answers[0].served == Some(409), "{answers:#?}");
    collector.stop().await
}

/// A finalizer `orphan` is added after the decision. A background DELETE would remove it, so the
/// policy is chosen again (rule 4.25). Fails if the collector compares only the references after
/// the 409, and not the finalizers.
async fn an_orphan_finalizer_added_between_decision_and_delete_is_honoured() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let goes = ns.configmap("goes").create().await?;
    let middle = ns.secret("middle").owned_by(&goes).create().await?;
    let leaf = ns.configmap("leaf").owned_by(&middle).create().await?;
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &middle));
    stage.cluster.delete(&goes, Policy::Background).await?;

    let held = deletes.next().await?;
    ensure!(held.request.policy() == "Background", "{}", held.request);
    let orphaning = stage.cluster.set_finalizers(&middle, &["orphan"]).await?;
    // Otherwise the next decision may use the old state of the graph, and be rejected again.
    stage.seen(&collector, &orphaning).await?;
    held.pass();
    drop(deletes);
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&middle]).await?;
    stage.assert_owners(&leaf, &[]).await?;
    let policies: Vec<_> =
        stage.of(Verb::Delete, &middle).iter().map(|delete| delete.policy().to_owned()).collect();
    ensure!(policies == ["Background", "Orphan"], "{policies:?}");
    collector.stop().await
}

/// Sets another label on an object and lets the held request pass.
async fn churn(stage: &Stage, object: &Obj, count: usize, held: HeldRequest) -> Result<(Obj, Request)> {
    let now = stage.cluster.set_label(object, "churn", &count.to_string()).await?;
    let request = held.request.clone();
    held.pass();
    Ok((now, request))
}

/// A DELETE whose object has changed in unrelated fields is sent again at once, with the version that was
/// just read (rule 4.26). After five such conflicts in a row, it carries only the uid (rule 4.27). If that
/// is answered with 409, or if the version is still the same, the collector can do nothing about the
/// cause, so it backs off and decides again (rule 4.28). Fails if a conflict costs a read of the owner or
/// a pause, if no DELETE ever succeeds, or if the same request is repeated.
async fn after_five_conflicts_over_unrelated_fields_only_the_uid_is_a_precondition() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let dependent = ns.secret("dependent").owned_by(&owner).create().await?;
    stage.cluster.settled(&collector).await?;
    let mark = stage.proxy.mark();
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &dependent));
    stage.cluster.delete(&owner, Policy::Background).await?;

    let mut changed = dependent.clone();
    for count in 0..5 {
        let expected = changed.resource_version;
        let request;
        (changed, request) = churn(&stage, &dependent, count, deletes.next().await?).await?;
        ensure!(request.precondition_version() == Some(&expected), "{count}: {request}, not {expected}");
        ensure!(request.precondition_uid() == Some(&dependent.uid), "{request}");
    }
    let uid_alone = deletes.next().await?;
    ensure!(uid_alone.request.precondition_version().is_none(), "{}", uid_alone.request);
    ensure!(uid_alone.request.precondition_uid() == Some(&dependent.uid), "{}", uid_alone.request);
    let reads = requests(stage.proxy.since(mark, &stage.here(Verb::Get)));
    // One after each conflict, and one right before the DELETE with only the uid.
    ensure!(reads.len() == 6 && reads.iter().all(|read| read.resource == "secrets"), "{reads:#?}");

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
