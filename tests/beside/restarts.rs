//! A dry run that starts in the middle of the work of another collector. Restarting a dry run
//! interrupts no work (rule 8.12), and must not change the comparison.

use anyhow::{Result, ensure};

use crate::conformance::stage::{Stage, clear, configmaps, crowd, many, midway};
use kube_gc_testkit::Policy;

kube_gc_testkit::scenarios! {
    a_dry_run_that_begins_in_the_middle_of_a_deletion_agrees,
}

/// A second dry run continues where the first was killed, and agrees.
async fn a_dry_run_that_begins_in_the_middle_of_a_deletion_agrees() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let collector = stage.collector().await?;
    let ns = cluster.namespace().await?;
    let owner = ns.secret("owner").create().await?;
    let dependents = many(5000);
    crowd(&ns, &owner, dependents, true).await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    midway(dependents, async || configmaps(cluster, &ns).await).await?;
    let suspended = stage.suspend_kubernetes_collector()?;
    collector.kill()?;
    let collector = stage.collector().await?;
    drop(suspended);
    cluster.settled(&collector).await?;
    cluster.assert_gone([&owner]).await?;
    let compared = collector.comparisons().await?;
    ensure!(compared.agreed > 10.0, "hardly anything was left to compare: {compared:?}");
    clear(cluster, &ns).await?;
    collector.stop().await
}
