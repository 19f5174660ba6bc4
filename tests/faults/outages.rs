//! The API server is killed, loses its history, or ends watches during much work.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Exchange, Matcher, Verb, WatchEnd};
use kube_gc_testkit::{Collector, Obj, Options, Policy, Server};

kube_gc_testkit::scenarios! {
    a_cascade_continues_after_the_api_server_restarts,
    a_compaction_costs_every_type_one_list,
}

/// The number of dependents of the deleted owner.
const DEPENDENTS: usize = 5000;
/// One in this many has another owner.
const SHARED: usize = 50;
/// Failures are retried soon.
const SOON: &str =
    "[retry]\nmax = \"2s\"\n[watch]\nmax_backoff = \"1s\"\n[client]\nrequest_timeout = \"5s\"\n";

/// An owner with thousands of dependents on two levels. Some of them have another owner.
struct Crowd {
    owner: Obj,
    solid: Obj,
    sole: Vec<Obj>,
    shared: Vec<Obj>,
    below: Vec<Obj>,
}

impl Crowd {
    async fn make(stage: &Stage) -> Result<Self> {
        let ns = &stage.ns;
        let owner = ns.secret("owner").create().await?;
        let solid = ns.secret("solid").create().await?;
        let all = create_all((0..DEPENDENTS).map(|number| {
            let dependent = ns.configmap(format!("dependent-{number}")).owned_by(&owner).blocking();
            if number % SHARED == 0 { dependent.owned_by(&solid) } else { dependent }
        }))
        .await?;
        let (shared, sole): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.owner_uids().len() == 2);
        // Of other types, so that several watches must work.
        let below = create_all(sole.iter().step_by(SHARED).enumerate().map(|(number, owner)| {
            match number % 2 {
                0 => ns.pod(format!("below-{number}")),
                _ => ns.secret(format!("below-{number}")),
            }
            .owned_by(owner)
            .blocking()
        }))
        .await?;
        Ok(Self { owner, solid, sole, shared, below })
    }

    /// Fails unless exactly the expected objects are gone.
    async fn is_over(&self, stage: &Stage, collector: &Collector) -> Result<()> {
        stage.cluster.settled(collector).await?;
        stage.cluster.assert_gone(self.sole.iter().chain(&self.below).chain([&self.owner])).await?;
        for object in &self.shared {
            stage.assert_owners(object, &[&self.solid]).await?;
        }
        stage.cluster.delete(&self.solid, Policy::Background).await?;
        stage.cluster.settled(collector).await?;
        stage.cluster.assert_gone(&self.shared).await
    }

    /// Waits until this many deletions in the namespace of this test were answered. The proxy runs
    /// on this thread, so no further request is handled before the caller waits.
    async fn progress(&self, stage: &Stage, answered: usize) -> Result<()> {
        let deletes = stage.here(Verb::Delete);
        stage.proxy.answered(answered, &deletes).await?;
        let has_gone = |delete: &&Exchange| delete.status.is_some_and(|status| status < 300);
        let gone = stage.proxy.all(&deletes).iter().filter(has_gone).count();
        ensure!(gone < self.sole.len(), "too late for the middle");
        Ok(())
    }
}

/// kube-apiserver is killed and restarted in the middle of a cascade, first alone and
/// then together with etcd (rule 8.8). Answered requests hold, and unanswered ones are
/// repeated. A type is listed only if its watch could not be resumed.
async fn a_cascade_continues_after_the_api_server_restarts() -> Result<()> {
    let stage = Stage::alone().await?;
    let plane = stage.plane()?;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let crowd = Crowd::make(&stage).await?;
    stage.cluster.settled(&collector).await?;
    let mark = stage.proxy.mark();
    stage.cluster.delete(&crowd.owner, Policy::Foreground).await?;

    crowd.progress(&stage, DEPENDENTS / 5).await?;
    plane.kill(Server::KubeApiserver)?;
    plane.restart(Server::KubeApiserver).await?;
    crowd.progress(&stage, DEPENDENTS / 2).await?;
    plane.kill(Server::KubeApiserver)?;
    plane.kill(Server::Etcd)?;
    plane.restart(Server::Etcd).await?;
    plane.restart(Server::KubeApiserver).await?;
    stage.answers().await?;

    crowd.is_over(&stage, &collector).await?;
    stage.assert_lists_were_needed(mark)?;
    ensure!(collector.metric("kube_gc_store_restored_total").await? == 0.0, "nothing was restored");
    collector.stop().await
}

/// Every watch is answered with 410, because the history is compacted. Each type is
/// listed once, and these lists contain what happened in between (rule 1.19).
async fn a_compaction_costs_every_type_one_list() -> Result<()> {
    let stage = Stage::alone().await?;
    let (plane, ns) = (stage.plane()?, &stage.ns);
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let owner = ns.secret("owner").create().await?;
    let solid = ns.secret("solid").create().await?;
    let foreground = ns.configmap("foreground").create().await?;
    let sole = ns.configmap("sole").owned_by(&owner).create().await?;
    let shared = ns.pod("shared").owned_by(&owner).owned_by(&solid).create().await?;
    let blocking = ns.pod("blocking").owned_by(&foreground).blocking().create().await?;
    stage.cluster.settled(&collector).await?;
    let watched: BTreeSet<String> = stage.proxy.watched();
    for resource in ["secrets", "configmaps", "pods"] {
        ensure!(watched.contains(resource), "{resource} is not watched: {watched:?}");
    }

    let mark = stage.proxy.mark();
    let mut resumed = stage.proxy.hold(Matcher::verb(Verb::Watch));
    ensure!(stage.proxy.cut(None, WatchEnd::Cleanly) == watched.len());
    let mut held = Vec::new();
    for _ in &watched {
        held.push(resumed.next().await?);
    }
    stage.cluster.delete(&owner, Policy::Background).await?;
    stage.cluster.delete(&foreground, Policy::Foreground).await?;
    let late = ns.secret("late").owned_by(&owner).create().await?;
    let kept = ns.secret("kept").owned_by(&solid).create().await?;
    plane.compact().await?;
    stage.answers().await?;
    drop(held);
    resumed.release();

    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&owner, &foreground, &sole, &blocking, &late]).await?;
    stage.assert_owners(&shared, &[&solid]).await?;
    stage.assert_owners(&kept, &[&solid]).await?;
    // This includes types that the scenario does not use; nothing waited for those so far.
    poll("every watch to be answered with 410", async || {
        Ok(stage.assert_lists_were_needed(mark)?.is_superset(&watched))
    })
    .await?;
    collector.stop().await
}
