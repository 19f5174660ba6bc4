//! Restarts the collector in the middle of a deletion, by SIGKILL and SIGTERM in turn. It must
//! still finish correctly (rule 8.12).

use anyhow::{Result, ensure};

use crate::conformance::policies_orphan::{released, unreleased};
use crate::conformance::stage::{LASTING, Stage, clear, configmaps, crowd, midway, slow};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    a_background_cascade_of_five_thousand_is_finished_after_restarts,
    orphaning_five_thousand_is_finished_after_restarts,
    an_orphan_deletion_after_a_foreground_deletion_is_honoured_after_a_restart,
    a_foreground_deletion_after_an_orphan_deletion_is_honoured_after_a_restart,
}

/// Ends a collector: every second one, starting with the first, by SIGKILL, the others by SIGTERM.
async fn end(collector: Collector, number: usize) -> Result<()> {
    if number.is_multiple_of(2) { collector.kill() } else { collector.stop().await }
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
