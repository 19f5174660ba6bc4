//! A client changes objects between a decision and the write that follows.

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Matcher, Verb};
use kube_gc_testkit::{Collector, Obj, Policy};

kube_gc_testkit::scenarios! {
    an_owner_added_between_decision_and_delete_saves_the_object,
    an_orphan_finalizer_added_between_decision_and_delete_is_honoured,
    an_owner_added_before_the_unblocking_patch_saves_the_object,
    an_owner_added_between_the_unblocking_patch_and_the_delete_saves_the_object,
    a_verdict_is_void_after_the_owners_policy_changes,
    a_solid_owner_is_confirmed_before_the_reference_to_a_waiting_one_is_removed,
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

/// A possible cycle: `middle` waits for the owner, blocks it, and has a dependent that is deleting
/// its own dependents. So `middle` must first stop blocking the owner.
struct Circle {
    owner: Obj,
    middle: Obj,
    saviour: Obj,
    lower: Obj,
    last: Obj,
}

impl Circle {
    async fn set(stage: &Stage) -> Result<Self> {
        let ns = &stage.ns;
        let owner = ns.configmap("owner").create().await?;
        let saviour = ns.configmap("saviour").create().await?;
        let middle = ns.secret("middle").owned_by(&owner).blocking().create().await?;
        let lower = ns.secret("lower").owned_by(&middle).blocking().create().await?;
        let last =
            ns.secret("last").owned_by(&lower).blocking().finalizer("example.com/hold").create().await?;
        Ok(Self { owner, middle, saviour, lower, last })
    }

    /// Deletes `lower` and then `owner` in the foreground.
    async fn close(&self, stage: &Stage, collector: &Collector) -> Result<()> {
        stage.cluster.delete(&self.lower, Policy::Foreground).await?;
        stage.cluster.settled(collector).await?;
        stage.cluster.delete(&self.owner, Policy::Foreground).await
    }

    /// A solid owner is added to `middle`.
    async fn save(&self, stage: &Stage, blocking: bool) -> Result<Obj> {
        let mut owner = self.owner.reference();
        owner["blockOwnerDeletion"] = blocking.into();
        stage.cluster.set_owner_references(&self.middle, &[owner, self.saviour.reference()]).await
    }

    async fn check_and_clear(&self, stage: &Stage, collector: &Collector) -> Result<()> {
        stage.cluster.settled(collector).await?;
        stage.cluster.assert_gone([&self.owner]).await?;
        stage.assert_owners(&self.middle, &[&self.saviour]).await?;
        stage.cluster.set_finalizers(&self.last, &[]).await?;
        stage.cluster.settled(collector).await?;
        stage.cluster.assert_gone([&self.lower, &self.last]).await?;
        stage.cluster.assert_kept([&self.middle, &self.saviour]).await
    }
}

/// The patch that stops blocking carries the resource version of the decision (rule 4.22). Fails if
/// it carries none while the DELETE carries the version that the patch returned.
async fn an_owner_added_before_the_unblocking_patch_saves_the_object() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let circle = Circle::set(&stage).await?;
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &circle.middle));
    circle.close(&stage, &collector).await?;

    let held = patches.next().await?;
    ensure!(held.request.patched_version() == Some(&circle.middle.resource_version), "{}", held.request);
    circle.save(&stage, true).await?;
    held.pass();
    drop(patches);
    circle.check_and_clear(&stage, &collector).await?;
    let deletes = stage.of(Verb::Delete, &circle.middle);
    ensure!(deletes.is_empty(), "{deletes:#?}");
    collector.stop().await
}

/// The DELETE after the patch that stops blocking carries the version that the patch
/// returned (rule 4.23). Fails if it carries none.
async fn an_owner_added_between_the_unblocking_patch_and_the_delete_saves_the_object() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let circle = Circle::set(&stage).await?;
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &circle.middle));
    circle.close(&stage, &collector).await?;

    let held = deletes.next().await?;
    let unblocked = stage.cluster.fresh(&circle.middle).await?;
    ensure!(unblocked.owner_references()?[0].block_owner_deletion == Some(false), "{}", unblocked.raw);
    ensure!(held.request.precondition_version() == Some(&unblocked.resource_version), "{}", held.request);
    ensure!(held.request.policy() == "Foreground", "{}", held.request);
    let saved = circle.save(&stage, false).await?;
    // Otherwise the next decision may use the old state of the graph, and be rejected again.
    stage.seen(&collector, &saved).await?;
    held.pass();
    drop(deletes);
    circle.check_and_clear(&stage, &collector).await?;
    let answers = stage.proxy.all(&Matcher::object(Verb::Delete, &circle.middle));
    ensure!(answers.len() == 1 && answers[0].served == Some(409), "{answers:#?}");
    collector.stop().await
}

/// Immediately before each DELETE, the owner must still be in foreground deletion (rule 4.32). The
/// owner is deleted again, with Orphan, after the decision about `middle` and before its DELETE.
/// Fails without this check: the version is right, so `middle` would be deleted.
async fn a_verdict_is_void_after_the_owners_policy_changes() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let circle = Circle::set(&stage).await?;
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &circle.middle));
    circle.close(&stage, &collector).await?;

    let unblock = patches.next().await?;
    stage.cluster.delete(&circle.owner, Policy::Orphan).await?;
    // This request follows from the change, so the collector has seen the change.
    let orphan = patches.next().await?;
    ensure!(orphan.request.patched_version().is_none(), "{}", orphan.request);
    unblock.pass();
    // Otherwise a DELETE would be in flight.
    poll("a new decision", async || {
        let is_decided = collector.metric_of("kube_gc_decisions_total", &["reevaluated"]).await? > 0.0;
        Ok(is_decided || !stage.of(Verb::Delete, &circle.middle).is_empty())
    })
    .await?;
    orphan.pass();
    drop(patches);
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&circle.owner]).await?;
    stage.assert_owners(&circle.middle, &[]).await?;
    let deletes = stage.of(Verb::Delete, &circle.middle);
    ensure!(deletes.is_empty(), "{deletes:#?}");
    stage.cluster.set_finalizers(&circle.last, &[]).await?;
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_kept([&circle.middle]).await?;
    collector.stop().await
}

/// Before a waiting reference is removed, a live read confirms one solid owner (rule 4.16). Here
/// the solid owner is deleted in the foreground, too, and its watch has not shown that. Fails if
/// the graph is trusted instead: the dependent would lose one owner, and the other one would keep
/// it until the event arrives.
async fn a_solid_owner_is_confirmed_before_the_reference_to_a_waiting_one_is_removed() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let waits = ns.configmap("waits").create().await?;
    let solid = ns.secret("solid").create().await?;
    let dependent =
        ns.pod("dependent").owned_by(&waits).blocking().owned_by(&solid).blocking().create().await?;
    stage.cluster.settled(&collector).await?;
    let late = stage.proxy.hold_events(Matcher::resource("secrets").within(ns.name()));
    stage.cluster.delete(&solid, Policy::Foreground).await?;
    late.caught().await?;
    stage.cluster.delete(&waits, Policy::Foreground).await?;
    stage.proxy.answered(1, &Matcher::object(Verb::Get, &solid)).await?;
    late.release();
    stage.cluster.settled(&collector).await?;

    stage.cluster.assert_gone([&waits, &solid, &dependent]).await?;
    ensure!(stage.of(Verb::Patch, &dependent).is_empty(), "a reference was taken away");
    collector.stop().await
}
