//! Dependents that appear late during the orphaning of their owner (kubernetes/kubernetes#26120).

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::Policy;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Verb};

kube_gc_testkit::scenarios! {
    an_orphaned_owner_is_remembered_while_another_finalizer_keeps_it,
    an_orphaned_owner_is_remembered_when_the_watch_repeats_events,
    an_owner_that_is_itself_being_orphaned_is_postponed_and_not_forgotten,
}

/// A finalizer of another client.
const HOLD: &str = "example.com/hold";

/// Another finalizer holds the owner when `orphan` is removed, and the owner is queued
/// once more because of a new dependent (rule 5.11). Fails if the owner then counts as no
/// longer orphaned: the dependent would be deleted when the owner is removed.
async fn an_orphaned_owner_is_remembered_while_another_finalizer_keeps_it() -> Result<()> {
    let stage = Stage::set().await?;
    let (ns, cluster) = (&stage.ns, &stage.cluster);
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").finalizer(HOLD).create().await?;
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &owner));
    cluster.delete(&owner, Policy::Orphan).await?;

    let held = patches.next().await?;
    let late = ns.configmap("late").owned_by(&owner).create().await?;
    // The owner is queued again, behind the work on it that is in progress.
    stage.seen(&collector, &late).await?;
    held.pass();
    drop(patches);
    cluster.settled(&collector).await?;
    ensure!(cluster.fresh(&owner).await?.finalizers() == [HOLD]);
    cluster.set_finalizers(&owner, &[]).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&owner]).await?;
    stage.assert_owners(&late, &[]).await?;
    ensure!(stage.of(Verb::Delete, &late).is_empty());
    collector.stop().await
}

/// The dependent is created after the round, is in no list, and is observed only when the owner is gone,
/// whose last events the watch repeats (rules 5.11 and 10.3). Fails if the owner is not remembered, or
/// forgotten because it was seen again: the dependent, whose release has failed so far, would be deleted.
async fn an_orphaned_owner_is_remembered_when_the_watch_repeats_events() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    // The events of the owner, and later ones.
    stage.proxy.echo(8);
    let owner = ns.secret("owner").create().await?;
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &owner));
    let events = stage.proxy.hold_events(Matcher::resource("configmaps").within(ns.name()));
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    let held = patches.next().await?;
    let late = ns.configmap("late").owned_by(&owner).create().await?;
    events.caught().await?;
    held.pass();
    drop(patches);
    stage.gone(&owner).await?;

    let failing = stage.proxy.always(Matcher::object(Verb::Patch, &late), Fault::Instead(Reply::broken()));
    events.release();
    failing.hit(1).await?;
    let other = ns.secret("other").create().await?;
    stage.seen(&collector, &other).await?;
    // The repeated events after it arrive before any later event.
    stage.proxy.echo(0);
    let last = ns.secret("last").create().await?;
    stage.seen(&collector, &last).await?;
    failing.remove();
    stage.cluster.settled(&collector).await?;
    stage.assert_owners(&late, &[]).await?;
    ensure!(stage.of(Verb::Delete, &late).is_empty());
    collector.stop().await
}

/// No queued key is lost (rule 8.2). A parent and its child are both deleted with Orphan.
/// The event of the patch that releases the child has not arrived when the child's own
/// dependents are released. Fails if the child is dropped for that reason: its finalizer
/// would stay forever, as nothing about the child changes any more.
async fn an_owner_that_is_itself_being_orphaned_is_postponed_and_not_forgotten() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let parent = ns.secret("parent").create().await?;
    let child = ns.configmap("child").owned_by(&parent).create().await?;
    let dependent = ns.secret("dependent").owned_by(&child).create().await?;
    stage.cluster.settled(&collector).await?;

    let mut releases = stage.proxy.hold(Matcher::object(Verb::Patch, &dependent));
    stage.cluster.delete(&child, Policy::Orphan).await?;
    let release = releases.next().await?;
    let events = stage.proxy.hold_events(Matcher::resource("configmaps").within(ns.name()));
    stage.cluster.delete(&parent, Policy::Orphan).await?;
    events.caught().await?;
    stage.gone(&parent).await?;
    release.pass();
    drop(releases);
    poll("the child to be put off", async || {
        let queues = collector.get_debug("/debug/queues").await?;
        Ok(queues.body.contains("the watch does not show an earlier write of kube-gc yet"))
    })
    .await?;

    events.release();
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&child]).await?;
    stage.assert_owners(&dependent, &[]).await?;
    collector.stop().await
}
