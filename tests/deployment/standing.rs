//! Shows that the scenarios test the manifests.

use anyhow::{Context as _, Result, bail, ensure};

use crate::conformance::policies::MixedChain;
use crate::conformance::stage::{Scene as _, Stage};
use crate::deployment::rights::grant;
use kube_gc_testkit::Options;
use kube_gc_testkit::deployment::USER;

kube_gc_testkit::scenarios! {
    a_scenario_fails_if_the_role_lacks_a_verb,
    a_scenario_with_a_wrong_configuration_fails,
}

/// Otherwise, no scenario could fail because of the role.
async fn a_scenario_fails_if_the_role_lacks_a_verb() -> Result<()> {
    for verb in ["delete", "patch"] {
        let stage = Stage::set().await?;
        let cluster = &stage.cluster;
        let installation = stage.standing.as_ref().context("no installation")?.to_change();
        let rules = installation.role().await?;
        grant(installation, &rules, Some(verb)).await?;
        let scene = MixedChain::plant(cluster).await?;
        scene.step(cluster, 0).await?;
        let collector = stage.collector().await?;
        // Quotes are escaped in a line of JSON.
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

/// The configuration of a scenario is in the ConfigMap that the collector reads. An invalid
/// combination prevents the start.
async fn a_scenario_with_a_wrong_configuration_fails() -> Result<()> {
    let stage = Stage::set().await?;
    // The manifests also have the second table.
    for config in ["[workers]\ndelete = \"many\"\n", "[log]\n"] {
        let Err(error) = stage.start(Options::config(config)).await else {
            bail!("it started with {config}")
        };
        ensure!(format!("{error:#}").contains("ended (exit status: 2)"), "{error:#}");
    }
    stage.collector().await?.stop().await
}
