//! A dry run and kube-controller-manager agree.

use anyhow::{Result, ensure};

use super::{Comparisons, alarms, onlooker};
use crate::conformance::stage::{Stage, clear, configmaps, crowd, midway};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, ControllerManager, Policy};

kube_gc_testkit::scenarios! {
    a_dry_run_agrees_about_each_policy,
    a_dry_run_that_begins_in_the_middle_of_a_deletion_agrees,
}

/// Enough for kube-controller-manager on a busy machine.
const GRACE: &str = "30s";

/// Waits until everything is done and compared. Fails if the dry run would have done anything that was not
/// done, or raised an alarm, or has compared no more than a few decisions.
async fn agrees(stage: &Stage, collector: &Collector, few: f64) -> Result<()> {
    stage.cluster.settled(collector).await?;
    poll("the comparisons", async || Ok(Comparisons::of(collector).await?.pending == 0.0)).await?;
    stage.cluster.settled(collector).await?;
    let compared = Comparisons::of(collector).await?;
    ensure!(compared.disagreed == 0.0 && compared.dropped == 0.0 && compared.agreed > few, "{compared:?}");
    let alarms = alarms(collector);
    ensure!(alarms.is_empty(), "alarms:\n{}", alarms.join("\n"));
    Ok(())
}

async fn a_dry_run_agrees_about_each_policy() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    ControllerManager::on(stage.plane)?;
    let collector = onlooker(&stage, GRACE).await?;
    let ns = cluster.namespace().await?;
    let keeper = ns.configmap("keeper").create().await?;
    let (mut owners, mut dependents) = (Vec::new(), Vec::new());
    for policy in [Policy::Foreground, Policy::Orphan, Policy::Background] {
        let name = format!("{policy:?}").to_lowercase();
        let owner = ns.configmap(&name).create().await?;
        ns.secret(format!("{name}-shared")).owned_by(&owner).owned_by(&keeper).create().await?;
        dependents.push(ns.secret(&name).owned_by(&owner).blocking().create().await?);
        owners.push((owner, policy));
    }
    cluster.settled(&collector).await?;
    // When kube-controller-manager has deleted the last dependent, it has seen the others, too.
    for (number, (owner, policy)) in owners.iter().enumerate().rev() {
        cluster.delete(owner, *policy).await?;
        if *policy == Policy::Background {
            cluster.gone(&dependents[number]).await?;
        }
    }
    for (owner, _) in &owners {
        cluster.gone(owner).await?;
    }
    agrees(&stage, &collector, 2.0).await?;
    let [in_foreground, orphan, in_background] = &dependents[..] else { unreachable!("three policies") };
    cluster.assert_gone([in_foreground, in_background]).await?;
    ensure!(cluster.fresh(orphan).await?.owner_uids().is_empty());
    collector.stop().await
}

/// A second dry run continues where the first was killed, and agrees: restarting a dry run interrupts no work
/// (rule 8.12), and must not change the comparison.
async fn a_dry_run_that_begins_in_the_middle_of_a_deletion_agrees() -> Result<()> {
    /// Several requests for each object take long.
    const DEPENDENTS: usize = 600;
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let other = ControllerManager::on(stage.plane)?;
    let collector = onlooker(&stage, GRACE).await?;
    let ns = cluster.namespace().await?;
    let owner = ns.secret("owner").create().await?;
    crowd(&ns, &owner, DEPENDENTS, true).await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    midway(DEPENDENTS, async || configmaps(cluster, &ns).await).await?;
    let suspended = other.freeze()?;
    collector.kill()?;
    let collector = onlooker(&stage, GRACE).await?;
    drop(suspended);
    cluster.gone(&owner).await?;
    agrees(&stage, &collector, 10.0).await?;
    clear(cluster, &ns).await?;
    collector.stop().await
}
