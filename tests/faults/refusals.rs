//! Writes that the API server rejects, fails, or does not answer in time.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Rule, Verb};
use kube_gc_testkit::{Collector, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    a_429_delays_only_its_object,
    failed_writes_are_repeated,
    writes_that_fail_after_taking_effect_do_no_harm,
    writes_whose_answer_is_lost_do_no_harm,
    writes_whose_answer_is_late_do_no_harm,
    conflicts_without_a_cause_are_resolved,
    conflicts_with_our_own_writes_are_resolved,
    failed_reads_are_repeated,
    a_denied_delete_is_reported_and_repeated_until_it_is_allowed,
}

/// Failures are retried soon, and a missing answer is given up soon.
const SOON: &str = "[retry]\nmax = \"300ms\"\n[client]\nrequest_timeout = \"2s\"\n";

/// The collector obeys `Retry-After`, and other objects do not wait (rule 8.6). Fails if the object
/// is retried earlier. The scenario checks the shortest time, never the longest.
async fn a_429_delays_only_its_object() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.configmap("owner").create().await?;
    let slow = ns.secret("slow").owned_by(&owner).create().await?;
    let quick = ns.secret("quick").owned_by(&owner).create().await?;
    stage.cluster.settled(&collector).await?;
    let mark = stage.proxy.mark();
    let throttled = Reply::status(429, "TooManyRequests", "made by the test").retry_after(2);
    let _rule = stage.proxy.times(1, Matcher::object(Verb::Delete, &slow), Fault::Instead(throttled));
    stage.cluster.delete(&owner, Policy::Background).await?;
    stage.cluster.settled(&collector).await?;

    stage.cluster.assert_gone([&slow, &quick]).await?;
    let about = stage.proxy.since(mark, &Matcher::resource("secrets").within(ns.name()).named("slow"));
    ensure!(about.len() == 2, "{about:#?}");
    let waited = about[1].arrived - about[0].answered.context("no answer")?;
    ensure!(waited >= Duration::from_secs(2), "tried again after {waited:?}");
    let quick = stage.proxy.since(mark, &Matcher::object(Verb::Delete, &quick));
    ensure!(quick[0].arrived < about[1].arrived, "others had to wait");
    collector.stop().await
}

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

/// Runs the scenario while the first writes about every object fail in this way.
async fn spoiled(fault: Fault, times: usize) -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let family = Family::set(&stage).await?;
    let mut rules = Vec::new();
    for verb in [Verb::Delete, Verb::Patch] {
        for object in
            family.go.iter().chain([&family.foreground, &family.orphan, &family.orphaned, &family.keeps_one])
        {
            rules.push(stage.proxy.times(times, Matcher::object(verb, object), fault.clone()));
        }
    }
    family.play_and_check(&stage, &collector).await?;
    let hits: usize = rules.iter().map(Rule::hits).sum();
    // Three deletions, two finalizers, two references.
    ensure!(hits >= 7, "only {hits} writes were spoiled");
    collector.stop().await
}

/// Writes fail and have no effect. In this scenario and the following ones, every object is in the
/// right state at the end (rule 6.11).
async fn failed_writes_are_repeated() -> Result<()> {
    spoiled(Fault::Instead(Reply::broken()), 3).await
}

/// A write takes effect and is answered with 500. Fails if the collector assumes that it had no
/// effect (rule 6.11).
async fn writes_that_fail_after_taking_effect_do_no_harm() -> Result<()> {
    spoiled(Fault::After(Reply::broken()), 1).await
}

/// The connection breaks after the write took effect (rule 6.11).
async fn writes_whose_answer_is_lost_do_no_harm() -> Result<()> {
    spoiled(Fault::AnswerLost, 1).await
}

/// Fails if the collector waits for an answer forever (rule 6.11).
async fn writes_whose_answer_is_late_do_no_harm() -> Result<()> {
    spoiled(Fault::AnswerLate, 1).await
}

/// Every write is answered with 409 for a while, without a reason (rule 4.28).
async fn conflicts_without_a_cause_are_resolved() -> Result<()> {
    spoiled(Fault::Instead(Reply::conflict()), 7).await
}

/// A 409 hides a DELETE that took effect (rule 6.11).
async fn conflicts_with_our_own_writes_are_resolved() -> Result<()> {
    spoiled(Fault::After(Reply::conflict()), 1).await
}

/// Reads fail, too (rule 4.11).
async fn failed_reads_are_repeated() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let family = Family::set(&stage).await?;
    let _gets = stage.proxy.times(6, stage.here(Verb::Get), Fault::Instead(Reply::broken()));
    let _lists = stage.proxy.times(9, stage.here(Verb::List), Fault::AnswerLost);
    family.play_and_check(&stage, &collector).await?;
    collector.stop().await
}

/// A denied write backs off. The log, the metrics and the debug API name it with the server's
/// message. It delays nothing else, and it succeeds once it is allowed (rules 9.5, 10.5 and 10.6).
async fn a_denied_delete_is_reported_and_repeated_until_it_is_allowed() -> Result<()> {
    const MESSAGE: &str = "secrets \\\"denied\\\" is forbidden: the test says no";
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let owner = ns.configmap("owner").create().await?;
    let denied = ns.secret("denied").owned_by(&owner).create().await?;
    let others = ns.secret("other").owned_by(&owner).create().await?;
    let reply = Reply::status(403, "Forbidden", &MESSAGE.replace('\\', ""));
    let rule = stage.proxy.always(Matcher::object(Verb::Delete, &denied), Fault::Instead(reply));
    stage.cluster.delete(&owner, Policy::Background).await?;

    rule.hit(3).await?;
    stage.gone(&others).await?;
    stage.cluster.assert_kept([&denied]).await?;
    collector.log_line(MESSAGE).await?;
    poll("the refusal to be on the debug page", async || {
        let queues = collector.get_debug("/debug/queues").await?.json()?;
        Ok(failing(&queues).iter().any(|(object, error)| {
            object.contains(&denied.uid) && error.contains(&MESSAGE.replace('\\', ""))
        }))
    })
    .await?;
    let decisions = collector.metrics().await?;
    let denials = decisions.iter().filter(|(series, _)| series.contains("denied")).map(|(_, count)| count);
    ensure!(denials.sum::<f64>() >= 3.0, "no metric tells: {decisions:#?}");

    rule.remove();
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&denied]).await?;
    let queues = collector.get_debug("/debug/queues").await?.json()?;
    ensure!(!queues.to_string().contains("the test says no"), "still failing: {queues:#}");
    collector.stop().await
}

/// The failing keys of all queues and their last errors.
fn failing(queues: &Value) -> Vec<(String, String)> {
    let queues = queues.as_array().or_else(|| queues["queues"].as_array()).cloned().unwrap_or_default();
    let items = queues.iter().flat_map(|queue| queue["failing"].as_array().cloned().unwrap_or_default());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    items.map(|item| (item["object"].to_string(), text(&item["last_error"]))).collect()
}
