//! That the scenarios are about the manifests.

use anyhow::{Context as _, Result, ensure};

use crate::policies::MixedChain;
use crate::rights::grant;
use crate::stage::{Scene as _, Stage};
use crate::support::deployment::USER;

/// None of them could fail for its role, were the collector that they start not its own.
#[tokio::test]
async fn a_scenario_fails_where_the_role_lacks_a_verb() -> Result<()> {
    for verb in ["delete", "patch"] {
        let stage = Stage::set().await?;
        let cluster = &stage.cluster;
        let installation = stage.standing.as_ref().context("no installation")?.to_change();
        let rules = installation.role().await?;
        grant(installation, &rules, Some(verb)).await?;
        let scene = MixedChain::plant(cluster).await?;
        scene.step(cluster, 0).await?;
        let collector = stage.collector().await?;
        // In a line of JSON quotes are escaped.
        collector.log_line(&format!("{USER}\\\" cannot {verb} resource")).await?;
        collector.stop().await?;
        ensure!(scene.holds(cluster, 0).await.is_err(), "it holds without {verb}");

        grant(installation, &rules, None).await?;
        let collector = stage.collector().await?;
        cluster.settled(&collector).await?;
        scene.holds(cluster, 0).await.with_context(|| format!("with {verb} again"))?;
        collector.stop().await?;
    }
    Ok(())
}
