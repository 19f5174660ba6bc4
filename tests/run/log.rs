//! The volume of the log, and what a SIGKILL takes from it.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use kube_gc_config::Loader;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, Collector, Obj, Options, Policy, Turn};
use serde_json::Value;

kube_gc_testkit::scenarios! {
    a_cascade_costs_a_few_lines_and_none_is_missing_from_their_sum,
    a_kill_takes_no_more_lines_than_there_were_requests_in_flight,
}

/// The dependents of the deleted owner.
const MANY: usize = 3000;
/// The greatest number of bytes about decisions, for each object.
const BYTES_PER_OBJECT: usize = 60;
/// The greatest size of the whole log of the process, in bytes.
const BYTES_IN_ALL: usize = 256 << 10;
/// The greatest number of lines in the whole log.
const LINES_IN_ALL: usize = 500;

/// The log of a collector from its start to its end, during which an owner with many dependents was
/// deleted.
async fn log_of_cascade() -> Result<(Vec<String>, Obj, Vec<Obj>)> {
    let turn = Turn::take().await?;
    let cluster = Cluster::new(turn.plane().client().await?);
    let ns = cluster.namespace().await?;
    let collector = Collector::start(turn.plane(), Options::default()).await?;
    collector.ready().await?;
    let owner = ns.secret("owner").create().await?;
    let dependents = (0..MANY).map(|n| ns.configmap(format!("of-{n}")).owned_by(&owner));
    let dependents = create_all(dependents).await?;
    cluster.settled(&collector).await?;
    cluster.delete(&owner, Policy::Background).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone(&dependents).await?;
    // At once: the last second has not been summed up yet.
    collector.signal("TERM")?;
    collector.log_line(r#""message":"shut down""#).await?;
    ensure!(collector.wait().await?.success());
    let log = collector.logged("");
    // It has ended, so this only suppresses the log.
    collector.kill()?;
    Ok((log, owner, dependents))
}

fn about_decisions(log: &[String]) -> impl Iterator<Item = &String> {
    log.iter().filter(|line| line.contains(r#""target":"kube_gc_controller::worker::decision"#))
}

/// The lines with a message that begins like this.
fn lines(log: &[String], message: &str) -> Result<Vec<Value>> {
    let lines = log.iter().map(|line| Ok(serde_json::from_str::<Value>(line)?));
    let lines = lines.collect::<Result<Vec<_>>>()?;
    let begins = |line: &Value| line["message"].as_str().is_some_and(|text| text.starts_with(message));
    Ok(lines.into_iter().filter(begins).collect())
}

/// Fails if the log of a cascade grows with each object, or if the summaries lose a decision.
async fn a_cascade_costs_a_few_lines_and_none_is_missing_from_their_sum() -> Result<()> {
    let (log, owner, dependents) = log_of_cascade().await?;
    let bytes: usize = about_decisions(&log).map(|line| line.len() + 1).sum();
    let in_all: usize = log.iter().map(|line| line.len() + 1).sum();
    eprintln!("{} bytes for each object, {in_all} in all, in {} lines", bytes / MANY, log.len());
    ensure!(bytes > 0 && bytes <= BYTES_PER_OBJECT * MANY, "{bytes} bytes about {MANY} objects");
    ensure!(in_all <= BYTES_IN_ALL && log.len() <= LINES_IN_ALL, "{in_all} bytes, {} lines", log.len());

    let single = lines(&log, "decision")?;
    let uids: BTreeSet<_> = dependents.iter().map(|object| object.uid.as_str()).collect();
    let is_of_cascade = |line: &&Value| line["uid"].as_str().is_some_and(|uid| uids.contains(uid));
    let single = single.iter().filter(is_of_cascade).count();
    let mut sum = 0;
    for line in lines(&log, "summary of decisions")? {
        if line["owner"]["uid"] != owner.uid.as_str() {
            continue;
        }
        ensure!(line["owner"]["kind"] == "Secret" && line["owner"]["name"] == "owner", "{line}");
        ensure!(line["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{line}");
        let counts = &line["counts"][0];
        ensure!(counts["action"] == "delete" && counts["resource"] == "configmaps", "{line}");
        ensure!(counts["outcome"] == "deleted" && counts["count"] == line["count"], "{line}");
        sum += usize::try_from(line["count"].as_u64().unwrap_or_default())?;
    }
    ensure!(single + sum == MANY, "{single} lines and {sum} in summaries for {MANY} objects");
    ensure!(sum > MANY / 2, "{sum} in summaries");
    Ok(())
}

/// What is in flight when the process is killed has no line, although the API server may carry it
/// out. docs/operations.md says how much that can be, and that the next process continues.
async fn a_kill_takes_no_more_lines_than_there_were_requests_in_flight() -> Result<()> {
    let workers = Loader::new().load()?.workers;
    let in_flight = workers.delete + workers.release;
    let page = include_str!("../../docs/operations.md");
    ensure!(page.contains(&format!("`workers.release` ({in_flight} by default)")), "not {in_flight}");

    let turn = Turn::take().await?;
    let cluster = Cluster::new(turn.plane().client().await?);
    let ns = cluster.namespace().await?;
    let options = Options::default().arg("--log-decisions").arg("all");
    let collector = Collector::start(turn.plane(), options).await?;
    collector.ready().await?;
    let owner = ns.secret("owner").create().await?;
    let dependents = create_all((0..MANY).map(|n| ns.configmap(format!("of-{n}")).owned_by(&owner))).await?;
    cluster.settled(&collector).await?;
    cluster.delete(&owner, Policy::Background).await?;
    poll("the cascade to be in its middle", async || {
        Ok(collector.metric("kube_gc_decisions_total").await? > 500.0)
    })
    .await?;
    collector.signal("KILL")?;
    collector.wait().await?;
    collector.log_ended().await?;

    let kept = cluster.list(&dependents[0].resource, Some(ns.name())).await?;
    let kept: BTreeSet<_> = kept.iter().map(|object| object.uid.as_str()).collect();
    let gone = dependents.iter().filter(|object| !kept.contains(object.uid.as_str())).count();
    let logged = collector.logged(r#""outcome":"deleted""#).len();
    eprintln!("{gone} objects were deleted, {} of them without a line", gone - logged.min(gone));
    ensure!(gone < MANY && logged > 0, "{gone} of {MANY} are gone, {logged} lines: not the middle");
    // The answers of the last 5 ms, whose lines were not written yet, are no more than that again.
    ensure!(gone <= logged + 2 * in_flight, "{gone} objects were deleted, and only {logged} have a line");
    collector.kill()?;

    let next = Collector::start(turn.plane(), Options::default()).await?;
    next.ready().await?;
    cluster.settled(&next).await?;
    cluster.assert_gone(&dependents).await.context("after the next start")?;
    next.stop().await
}
