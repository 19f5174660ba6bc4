//! Foreground deletions: the cost of confirming an owner, and objects that a change of policy in
//! the middle still saves.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep_until};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Matcher, Verb};
use kube_gc_testkit::{Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    one_confirmation_of_a_waiting_owner_serves_all_its_dependents,
    dependents_decided_after_an_orphan_deletion_of_the_owner_are_kept,
    dependents_decided_a_second_after_an_orphan_deletion_are_kept_even_if_the_watch_is_late,
    an_owner_deleted_again_with_foreground_takes_its_dependents_along,
    nothing_is_orphaned_once_the_orphan_finalizer_is_missing,
    an_orphan_deletion_keeps_dependents_whose_delete_still_waits_for_its_turn,
}

const DEPENDENTS: usize = 40;
/// The lifetime of a live confirmation of an owner.
const CONFIRMED: Duration = Duration::from_secs(1);

async fn family(stage: &Stage) -> Result<(Obj, Vec<Obj>)> {
    let ns = &stage.ns;
    let owner = ns.secret("owner").create().await?;
    let dependents = (0..DEPENDENTS).map(|n| ns.configmap(format!("d-{n}")).owned_by(&owner).blocking());
    let dependents = create_all(dependents).await?;
    Ok((owner, dependents))
}

/// A waiting owner is confirmed once for all its dependents, and again after a second or
/// an event of the owner (rule 4.31). Fails if each dependent costs a read of its owner.
async fn one_confirmation_of_a_waiting_owner_serves_all_its_dependents() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let (owner, dependents) = family(&stage).await?;
    stage.cluster.settled(&collector).await?;
    // A dependent may have been observed before its owner, which was looked up then.
    let mark = stage.proxy.mark();
    let began = Instant::now();
    stage.cluster.delete(&owner, Policy::Foreground).await?;
    stage.gone(&owner).await?;
    // A slow machine takes longer and may need more requests.
    let seconds = usize::try_from(began.elapsed().as_secs())?;
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone(&dependents).await?;
    let looks = stage.proxy.since(mark, &Matcher::object(Verb::Get, &owner)).len();
    // One for its only version, and one more before the finalizer is removed.
    ensure!(looks <= 2 + seconds, "{looks} reads of {owner} in {seconds} s");
    let deletes = stage.proxy.all(&stage.here(Verb::Delete)).len();
    ensure!(deletes == DEPENDENTS, "{deletes} deletes of {DEPENDENTS} dependents");
    ensure!(stage.proxy.all(&stage.here(Verb::Get).of("configmaps")).is_empty(), "dependents were read");
    collector.stop().await
}

/// The owner is deleted again, with Orphan, while the DELETE of a dependent is under way. From then on the
/// new policy applies (rules 1.9, 4.32 and 8.1). Fails if decisions about the other dependents use what was
/// known when they were queued: more than one dependent would be deleted.
async fn after_an_orphan_deletion(the_watch_is_late: bool) -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector_with(Options::config("[workers]\ndelete = 1\n")).await?;
    let (owner, dependents) = family(&stage).await?;
    stage.cluster.settled(&collector).await?;
    let mut deletes = stage.proxy.hold(stage.here(Verb::Delete).of("configmaps"));
    stage.cluster.delete(&owner, Policy::Foreground).await?;
    let held = deletes.next().await?;
    let gone = held.request.name.clone().unwrap_or_default();

    if the_watch_is_late {
        let owners = Matcher::resource("secrets").within(stage.ns.name()).named("owner");
        let events = stage.proxy.hold_events(owners);
        stage.cluster.delete(&owner, Policy::Orphan).await?;
        events.caught().await?;
        // This is exactly what the rule guarantees; a test cannot rely on earlier behaviour.
        sleep_until(Instant::now() + CONFIRMED).await;
        held.pass();
        drop(deletes);
        // The owner of the next dependent is looked up, and no other dependent is deleted.
        stage.proxy.answered(2, &Matcher::object(Verb::Get, &owner)).await?;
        events.release();
    } else {
        // The finalizer patch is held, so that it cannot save the dependent whose DELETE was sent.
        let mut patches = stage.proxy.hold(stage.here(Verb::Patch).of("configmaps"));
        stage.cluster.delete(&owner, Policy::Orphan).await?;
        patches.next().await?;
        held.pass();
        stage.proxy.answered(1, &stage.here(Verb::Delete).named(&gone)).await?;
        drop((deletes, patches));
    }
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&owner]).await?;
    for dependent in dependents.iter().filter(|dependent| dependent.name != gone) {
        stage.assert_owners(dependent, &[]).await?;
    }
    let deletes = stage.proxy.all(&stage.here(Verb::Delete)).len();
    ensure!(deletes == 1, "{deletes} deletes");
    collector.stop().await
}

/// The collector has seen the new policy (rule 8.1).
async fn dependents_decided_after_an_orphan_deletion_of_the_owner_are_kept() -> Result<()> {
    after_an_orphan_deletion(false).await
}

/// The watch of the owner is late, so that only a live read shows the change (rule 4.32). Fails if a
/// confirmation stays valid until an event invalidates it.
async fn dependents_decided_a_second_after_an_orphan_deletion_are_kept_even_if_the_watch_is_late()
-> Result<()> {
    after_an_orphan_deletion(true).await
}

/// The policy changes from Orphan to Foreground while the finalizer patch is under way
/// (rule 5.13). Fails if that patch is not bound to what was read: the owner would be
/// removed, and leave its dependents behind forever.
async fn an_owner_deleted_again_with_foreground_takes_its_dependents_along() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").create().await?;
    stage.cluster.settled(&collector).await?;
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &owner));
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    let held = patches.next().await?;
    let dependent = ns.configmap("dependent").owned_by(&owner).blocking().create().await?;
    // If the collector had not seen the dependent, it could remove the owner without it, while the
    // owner still counts as orphaning.
    stage.seen(&collector, &dependent).await?;
    stage.cluster.delete(&owner, Policy::Foreground).await?;
    held.pass();
    drop(patches);
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&owner, &dependent]).await?;
    ensure!(stage.of(Verb::Patch, &dependent).is_empty(), "it was orphaned");
    collector.stop().await
}

/// The policy changes from Orphan to Foreground. The collector finds out when it wants to remove
/// the finalizer, before the watch shows the change (rule 5.13). Fails if the collector then relies
/// on the last event of the owner: it would orphan a late dependent.
async fn nothing_is_orphaned_once_the_orphan_finalizer_is_missing() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector_with(Options::config("[workers]\norphan = 1\n")).await?;
    let owner = ns.secret("owner").create().await?;
    // Of another type, because a watch shows nothing after a held event.
    let other = ns.configmap("other").create().await?;
    stage.cluster.settled(&collector).await?;
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &owner));
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    let held = patches.next().await?;
    let dependent = ns.configmap("dependent").owned_by(&owner).blocking().create().await?;
    stage.seen(&collector, &dependent).await?;
    let events = stage.proxy.hold_events(Matcher::resource("secrets").within(ns.name()).named("owner"));
    stage.cluster.delete(&owner, Policy::Foreground).await?;
    events.caught().await?;
    held.pass();
    drop(patches);
    poll("it to find the finalizer missing", async || {
        let unneeded =
            r#"kube_gc_decisions_total{action="remove_finalizer",outcome="unneeded",resource="secrets"}"#;
        Ok(collector.metrics().await?.get(unneeded).is_some_and(|count| *count >= 1.0))
    })
    .await?;
    // The only worker handles one owner after another. So when it handles the second one, it has
    // checked the first one again.
    stage.cluster.delete(&other, Policy::Orphan).await?;
    stage.gone(&other).await?;
    ensure!(stage.of(Verb::Patch, &dependent).is_empty(), "it was orphaned");
    events.release();
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&owner, &dependent]).await?;
    collector.stop().await
}

/// An owner is deleted in the foreground by mistake. While the DELETEs of its dependents wait for
/// the rate limiter, it is deleted again, with Orphan. Fails if the owner is checked before that
/// wait and not after it: every waiting dependent would be deleted.
async fn an_orphan_deletion_keeps_dependents_whose_delete_still_waits_for_its_turn() -> Result<()> {
    /// Most of them wait when the owner is deleted again.
    const DEPENDENTS: usize = 6;
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let owner = ns.configmap("owner").create().await?;
    let of_owner = (0..DEPENDENTS).map(|n| ns.secret(format!("dependent-{n}")).owned_by(&owner).blocking());
    let dependents = create_all(of_owner).await?;
    let limited = Options::config("[client]\nqps = 1\nburst = 1\n");
    let collector = stage.collector_with(limited).await?;
    let mut deletes = stage.proxy.hold(stage.here(Verb::Delete).of("secrets"));
    cluster.delete(&owner, Policy::Foreground).await?;
    let first = deletes.next().await?;

    cluster.delete(&owner, Policy::Orphan).await?;
    let orphaning = cluster.fresh(&owner).await?;
    stage.seen(&collector, &orphaning).await?;
    // Requests that were already sent were correct; one is sent each second.
    let mark = stage.proxy.mark();
    first.pass();
    deletes.release();
    cluster.settled(&collector).await?;

    let late = stage.proxy.since(mark, &stage.here(Verb::Delete).of("secrets"));
    ensure!(late.is_empty(), "sent when the owner was known to orphan its dependents: {late:#?}");
    let sent = stage.proxy.all(&stage.here(Verb::Delete).of("secrets")).len();
    let mut kept: Vec<&Obj> = Vec::new();
    for dependent in &dependents {
        if cluster.exists_with_uid(dependent).await? {
            kept.push(dependent);
        }
    }
    ensure!(kept.len() >= DEPENDENTS - sent, "{} are left after {sent} DELETEs", kept.len());
    ensure!(sent <= DEPENDENTS / 2, "{sent} DELETEs were sent, so too few have waited");
    for dependent in kept {
        stage.assert_owners(dependent, &[]).await?;
    }
    cluster.assert_gone([&owner]).await?;
    collector.stop().await
}
