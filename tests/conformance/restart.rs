//! Restarts the collector in the middle of other scenarios, by SIGKILL and SIGTERM in turn. It must
//! still finish correctly (rule 8.12).

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::conformance::policies::{Family, Rings};
use crate::conformance::policies_foreground::{Chain, WaysOut};
use crate::conformance::policies_orphan::{Orphans, released, unreleased};
use crate::conformance::stage::{LASTING, Scene, Stage, clear, configmaps, crowd, midway, slow};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    a_background_deletion_is_finished_after_restarts,
    blocked_owners_are_released_after_restarts,
    a_foreground_chain_is_finished_after_restarts,
    rings_are_deleted_after_restarts,
    orphaning_is_finished_after_restarts,
    a_background_cascade_of_five_thousand_is_finished_after_restarts,
    orphaning_five_thousand_is_finished_after_restarts,
    an_orphan_deletion_after_a_foreground_deletion_is_honoured_after_a_restart,
    a_foreground_deletion_after_an_orphan_deletion_is_honoured_after_a_restart,
}

/// How often a collector is interrupted in each step of a scenario, if the step has enough work.
const INTERRUPTIONS: usize = 4;

/// Ends a collector: every second one, starting with the first, by SIGKILL, the others by SIGTERM.
async fn end(collector: Collector, number: usize) -> Result<()> {
    if number.is_multiple_of(2) { collector.kill() } else { collector.stop().await }
}

/// The resourceVersion of each object that still exists.
async fn states(cluster: &Cluster, objects: &[&Obj]) -> Result<Vec<Option<String>>> {
    stream::iter(objects.iter().map(async |object| {
        let now = cluster.get(object).await?.filter(|now| now.uid == object.uid);
        anyhow::Ok(now.map(|now| now.resource_version))
    }))
    .buffered(8)
    .try_collect()
    .await
}

/// Runs a scenario until it was interrupted. A small one may finish before that.
async fn interrupt<S: Scene>() -> Result<()> {
    let stage = Stage::set().await?;
    for _ in 0..3 {
        if interrupt_once::<S>(&stage).await? > 0 {
            return Ok(());
        }
    }
    bail!("nothing was interrupted")
}

/// Runs a scenario with a collector that is slow enough to be ended after each of its actions.
/// Returns the number of interruptions.
async fn interrupt_once<S: Scene>(stage: &Stage) -> Result<usize> {
    let cluster = &stage.cluster;
    let scene = S::plant(cluster).await?;
    let mut interrupted = 0;
    for step in 0..S::STEPS {
        scene.step(cluster, step).await?;
        for _ in 0..INTERRUPTIONS {
            let before = states(cluster, &scene.all()).await?;
            let collector = stage.start(slow(4)).await?;
            let mut over = false;
            poll("the collector to do something", async || {
                over = scene.holds(cluster, step).await.is_ok();
                Ok(over || states(cluster, &scene.all()).await? != before)
            })
            .await?;
            end(collector, interrupted).await?;
            if over {
                break;
            }
            interrupted += 1;
        }
        let collector = stage.collector().await?;
        cluster.settled(&collector).await?;
        let holds = scene.holds(cluster, step).await;
        holds.with_context(|| format!("after step {step}, interrupted {interrupted} times so far"))?;
        collector.stop().await?;
    }
    Ok(interrupted)
}

/// In the middle of a background deletion (rules 1.6 and 8.12).
async fn a_background_deletion_is_finished_after_restarts() -> Result<()> {
    interrupt::<Family>().await
}

/// While a blocking dependent holds its owner (rules 1.7, 8.12 and 10.4).
async fn blocked_owners_are_released_after_restarts() -> Result<()> {
    interrupt::<WaysOut>().await
}

/// In the middle of the foreground deletion of a chain (rules 4.18 and 8.12).
async fn a_foreground_chain_is_finished_after_restarts() -> Result<()> {
    interrupt::<Chain>().await
}

/// In the middle of the deletion of a cycle (rules 4.5 and 8.12).
async fn rings_are_deleted_after_restarts() -> Result<()> {
    interrupt::<Rings>().await
}

/// In the middle of orphaning (rules 5.1 and 8.12).
async fn orphaning_is_finished_after_restarts() -> Result<()> {
    interrupt::<Orphans>().await
}

/// The number of blocking dependents of an owner whose deletion is interrupted in the middle.
const DEPENDENTS: usize = 5000;

/// An owner of thousands, and a collector that is slow enough to be interrupted in the middle.
struct Thousands {
    stage: Stage,
    ns: Ns,
    owner: Obj,
    collector: Collector,
}

impl Thousands {
    async fn set() -> Result<Self> {
        let stage = Stage::set().await?;
        let collector = stage.collector_with(slow(LASTING)).await?;
        let ns = stage.cluster.namespace().await?;
        let owner = ns.secret("owner").create().await?;
        crowd(&ns, &owner, DEPENDENTS, true).await?;
        stage.cluster.settled(&collector).await?;
        Ok(Self { stage, ns, owner, collector })
    }

    /// Waits for the middle of a deletion with this policy. Returns how many are left.
    async fn midway(&self, policy: Policy, left: usize) -> Result<usize> {
        midway(left, async || match policy {
            Policy::Orphan => unreleased(&self.stage.cluster, &self.ns).await,
            Policy::Background | Policy::Foreground => configmaps(&self.stage.cluster, &self.ns).await,
        })
        .await
    }

    /// The rest of the work is done, and this number of dependents stays.
    async fn end(self, live: usize) -> Result<()> {
        let Self { stage, ns, owner, collector } = self;
        stage.cluster.settled(&collector).await?;
        stage.cluster.assert_gone([&owner]).await?;
        let now = released(&stage.cluster, &ns).await?;
        ensure!(now == live, "{now} live, not {live}");
        clear(&stage.cluster, &ns).await?;
        collector.stop().await
    }
}

/// Ends the collector twice in the middle of a deletion.
async fn interrupt_thousands(policy: Policy, live: usize) -> Result<()> {
    let mut scene = Thousands::set().await?;
    scene.stage.cluster.delete(&scene.owner, policy).await?;
    let mut left = DEPENDENTS;
    for number in 0..2 {
        left = scene.midway(policy, left).await?;
        end(scene.collector, number).await?;
        // No collector starts in the middle of the last one.
        let options = if number == 0 { slow(LASTING) } else { Options::default() };
        scene.collector = scene.stage.collector_with(options).await?;
    }
    scene.stage.cluster.settled(&scene.collector).await?;
    scene.collector = scene.stage.restarted(scene.collector).await?;
    scene.end(live).await
}

/// In the middle of a background cascade of 5,000 (rules 8.12 and 10.2).
async fn a_background_cascade_of_five_thousand_is_finished_after_restarts() -> Result<()> {
    interrupt_thousands(Policy::Background, 0).await
}

/// In the middle of orphaning 5,000 dependents (rules 5.4 and 8.12).
async fn orphaning_five_thousand_is_finished_after_restarts() -> Result<()> {
    interrupt_thousands(Policy::Orphan, DEPENDENTS).await
}

/// Changes the policy in the middle of a deletion, and ends the collector right after that, when it may or
/// may not have seen the change.
async fn interrupt_a_change_of_mind(first: Policy, second: Policy) -> Result<()> {
    let mut scene = Thousands::set().await?;
    let (cluster, ns) = (&scene.stage.cluster, &scene.ns);
    cluster.delete(&scene.owner, first).await?;
    scene.midway(first, DEPENDENTS).await?;
    cluster.delete(&scene.owner, second).await?;
    scene.collector.kill()?;
    // Requests of the collector may still be in flight.
    let count = async || anyhow::Ok((configmaps(cluster, ns).await?, unreleased(cluster, ns).await?));
    let mut counted = count().await?;
    poll("the last requests to be over", async || {
        let before = std::mem::replace(&mut counted, count().await?);
        Ok(before == counted)
    })
    .await?;
    let (here, owned) = counted;
    ensure!(owned > 0, "all was over already");

    scene.collector = scene.stage.collector().await?;
    // No collector ran between the count and the restart.
    let live = if second == Policy::Orphan { here } else { here - owned };
    scene.end(live).await
}

/// After a foreground deletion was changed to orphaning (rules 1.9 and 8.12).
async fn an_orphan_deletion_after_a_foreground_deletion_is_honoured_after_a_restart() -> Result<()> {
    interrupt_a_change_of_mind(Policy::Foreground, Policy::Orphan).await
}

/// After orphaning was changed to a foreground deletion (rules 5.13 and 8.12).
async fn a_foreground_deletion_after_an_orphan_deletion_is_honoured_after_a_restart() -> Result<()> {
    interrupt_a_change_of_mind(Policy::Orphan, Policy::Foreground).await
}
