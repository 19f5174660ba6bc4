//! Foreground deletions: the cost of confirming an owner, and objects that a change of policy in
//! the middle still saves.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep_until};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::{Matcher, Verb};
use kube_gc_testkit::{Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    one_confirmation_of_a_waiting_owner_serves_all_its_dependents,
    dependents_decided_after_an_orphan_deletion_of_the_owner_are_kept,
    dependents_decided_a_second_after_an_orphan_deletion_are_kept_even_if_the_watch_is_late,
    an_owner_deleted_again_with_foreground_takes_its_dependents_along,
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
