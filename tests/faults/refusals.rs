//! Writes that the API server rejects, fails, or does not answer in time.

use anyhow::{Context as _, Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Rule, Verb};
use kube_gc_testkit::{Collector, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    writes_that_fail_before_or_after_their_effect_are_repeated_without_harm,
}

/// Failures are retried soon, and a missing answer is given up soon.
const SOON: &str = "[retry]\nmax = \"300ms\"\n[client]\nrequest_timeout = \"2s\"\n";

/// A family whose objects are deleted under each policy, so that every kind of write occurs.
struct Family {
    background: Obj,
    foreground: Obj,
    orphan: Obj,
    solid: Obj,
    go: Vec<Obj>,
    orphaned: Obj,
    keeps_one: Obj,
}

impl Family {
    async fn set(stage: &Stage) -> Result<Self> {
        let ns = &stage.ns;
        let background = ns.configmap("background").create().await?;
        let foreground = ns.configmap("foreground").create().await?;
        let orphan = ns.configmap("orphan").create().await?;
        let solid = ns.configmap("solid").create().await?;
        let below = ns.secret("of-background").owned_by(&background).create().await?;
        let under = ns.pod("below").owned_by(&below).create().await?;
        let blocks = ns.secret("of-foreground").owned_by(&foreground).blocking().create().await?;
        let orphaned = ns.secret("of-orphan").owned_by(&orphan).create().await?;
        let keeps_one = ns.secret("of-two").owned_by(&background).owned_by(&solid).create().await?;
        let go = vec![below, under, blocks];
        Ok(Self { background, foreground, orphan, solid, go, orphaned, keeps_one })
    }

    async fn play_and_check(&self, stage: &Stage, collector: &Collector) -> Result<()> {
        stage.cluster.settled(collector).await?;
        stage.cluster.delete(&self.background, Policy::Background).await?;
        stage.cluster.delete(&self.foreground, Policy::Foreground).await?;
        stage.cluster.delete(&self.orphan, Policy::Orphan).await?;
        stage.cluster.settled(collector).await?;
        stage.cluster.assert_gone([&self.background, &self.foreground, &self.orphan]).await?;
        stage.cluster.assert_gone(&self.go).await?;
        stage.assert_owners(&self.orphaned, &[]).await?;
        stage.assert_owners(&self.keeps_one, &[&self.solid]).await?;
        stage.cluster.assert_kept([&self.solid]).await
    }
}

/// The first writes about every object fail in one of these ways, and in the end, every object is in the
/// right state (rules 4.28 and 6.11). Fails if the collector assumes that a write with a bad answer had no
/// effect, or waits for an answer forever.
async fn writes_that_fail_before_or_after_their_effect_are_repeated_without_harm() -> Result<()> {
    // How a write fails, and how often in a row: without an effect, or after it.
    let ways = [
        (Fault::Instead(Reply::broken()), 3),
        (Fault::Instead(Reply::conflict()), 7),
        (Fault::After(Reply::broken()), 1),
        (Fault::After(Reply::conflict()), 1),
        (Fault::AnswerLost, 1),
        (Fault::AnswerLate, 1),
    ];
    for (number, (fault, times)) in ways.into_iter().enumerate() {
        let stage = Stage::set().await?;
        let collector = stage.collector_with(Options::config(SOON)).await?;
        let family = Family::set(&stage).await?;
        let written = [&family.foreground, &family.orphan, &family.orphaned, &family.keeps_one];
        let written: Vec<_> = family.go.iter().chain(written).collect();
        let rules: Vec<Rule> = [Verb::Delete, Verb::Patch]
            .into_iter()
            .flat_map(|verb| written.iter().map(move |object| Matcher::object(verb, object)))
            .map(|matcher| stage.proxy.times(times, matcher, fault.clone()))
            .collect();
        family.play_and_check(&stage, &collector).await.with_context(|| format!("way {number}"))?;
        let hits: usize = rules.iter().map(Rule::hits).sum();
        // Three deletions, two finalizers, two references.
        ensure!(hits >= 7, "way {number}: only {hits} writes were spoiled");
        collector.stop().await?;
    }
    Ok(())
}
