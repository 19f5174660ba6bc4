//! An outage of the API server in the middle of a cascade.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::{Instant, sleep};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Exchange, Outage, Verb};
use kube_gc_testkit::{Collector, Policy};

kube_gc_testkit::scenarios! {
    an_outage_costs_few_probes_and_few_log_lines_and_work_resumes_at_once,
}

/// The number of dependents of the deleted owner.
const DEPENDENTS: usize = 5000;
/// The maximum number of probes per second.
const PROBES: f64 = 5.0;
/// The maximum number of log lines per minute of an outage, and of their bytes.
const LINES: usize = 100;
const BYTES: usize = 64 << 10;
/// The duration of each of three kinds of outage; two minutes in total.
const EACH: Duration = Duration::from_secs(40);
/// The number of DELETEs in a sample of the speed.
const SAMPLE: usize = 500;
/// The time limit after the outage until the collector works at its previous speed.
const RETURN: Duration = Duration::from_secs(2);

/// The lines after this number of lines, without those about objects that were deleted before the
/// outage.
fn lines_of_outage(collector: &Collector, before: usize) -> Vec<String> {
    let all = collector.logged("").into_iter().skip(before);
    all.filter(|line| !line.contains(r#""outcome":"deleted""#)).collect()
}

/// The number of types that are not synced, according to readiness.
async fn unsynced(collector: &Collector) -> Result<usize> {
    let page = collector.get("/readyz?verbose").await?;
    ensure!(page.status == 200, "a restart would not help: {}", page.body);
    Ok(page.body.lines().filter(|line| line.starts_with("[!]monitor/")).count())
}

/// The time from the first to the last request of a sample.
fn time_of_sample(deletes: &[Exchange]) -> Result<Duration> {
    let (first, last) = (deletes.first().context("a DELETE")?, deletes.get(SAMPLE - 1).context("a sample")?);
    Ok(last.arrived - first.arrived)
}

/// Fails if each key, each type and discovery notice the outage separately, with a log line for
/// each try, or if they keep waiting after the server is back.
async fn an_outage_costs_few_probes_and_few_log_lines_and_work_resumes_at_once() -> Result<()> {
    let stage = Stage::alone().await?;
    let collector = stage.collector().await?;
    let owner = stage.ns.secret("owner").create().await?;
    let dependents = (0..DEPENDENTS).map(|n| stage.ns.configmap(format!("of-{n}")).owned_by(&owner));
    let dependents = create_all(dependents).await?;
    stage.cluster.settled(&collector).await?;
    let deletes = stage.here(Verb::Delete);
    stage.cluster.delete(&owner, Policy::Background).await?;
    stage.proxy.answered(SAMPLE, &deletes).await?;
    let usual = time_of_sample(&stage.proxy.all(&deletes))?;

    let memory = async || collector.metric("process_resident_memory_bytes").await;
    let requests = async || collector.metric("kube_gc_requests_total").await;
    let (before, memory_before) = (collector.logged("").len(), memory().await?);
    let began = Instant::now();
    for how in [Outage::Refused, Outage::Hanging, Outage::Unavailable] {
        stage.proxy.set_outage(Some(how));
        // Until no request from before the outage was noticed is in flight.
        collector.log_line("the API server is unreachable").await?;
        let is_known = async || Ok(collector.metric("kube_gc_api_server_reachable").await? == 0.0);
        poll("the metric to say so", is_known).await?;
        let (start, sent) = (Instant::now(), requests().await?);
        sleep(EACH).await;
        let (sent, seconds) = (requests().await? - sent, start.elapsed().as_secs_f64());
        ensure!(sent <= PROBES * seconds, "{how:?}: {sent} requests in {seconds:.1} s");
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let said = lines_of_outage(&collector, before);
    eprintln!("{} lines in {minutes:.1} min", said.len());
    for line in ["is unreachable;", "is still unreachable"] {
        collector.log_line(line).await?;
    }
    outcomes_say_what_is_known(&collector).await?;
    let grown = memory().await? - memory_before;
    ensure!(grown <= 32e6, "{grown} bytes more");
    let gone = stage.proxy.all(&deletes).iter().filter(|delete| delete.status == Some(200)).count();
    ensure!(gone < DEPENDENTS / 2, "too late for the middle: {gone}");

    let mark = stage.proxy.mark();
    stage.proxy.set_outage(None);
    let back = Instant::now();
    collector.log_line("the API server is reachable again").await?;
    stage.proxy.answered(gone + SAMPLE, &deletes).await?;
    poll("all types to be synced", async || Ok(unsynced(&collector).await? == 0)).await?;
    let synced = back.elapsed();
    let after = stage.proxy.since(mark, &deletes);
    let (first, sample) = (after.first().context("a DELETE")?, after.get(SAMPLE - 1).context("a sample")?);
    let (first, sample) = (first.arrived - back, sample.arrived - back);
    eprintln!("{SAMPLE} DELETEs took {usual:?} before; {sample:?} after the return, the first one {first:?}");
    eprintln!("all types were synced {synced:?} after the return");
    let bytes: usize = said.iter().map(|line| line.len() + 1).sum();
    ensure!(said.len() <= LINES && bytes <= BYTES, "{} lines, {bytes} bytes: {said:#?}", said.len());
    // Other tests that run at the same time change the speed of the machine.
    ensure!(
        sample <= RETURN + usual * 4,
        "{SAMPLE} DELETEs took {sample:?} after the return, {usual:?} before"
    );
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone(&dependents).await?;
    collector.stop().await
}

/// The number of decisions with this outcome.
async fn decisions(collector: &Collector, outcome: &str) -> Result<f64> {
    collector.metric_of("kube_gc_decisions_total", &[&format!("outcome=\"{outcome}\"")]).await
}

/// What got no answer, or was not sent, has not failed.
async fn outcomes_say_what_is_known(collector: &Collector) -> Result<()> {
    let failed = decisions(collector, "failed").await?;
    ensure!(failed == 0.0, "{failed} have failed");
    let waited = decisions(collector, "unknown").await? + decisions(collector, "deferred").await?;
    ensure!(waited > 0.0, "nothing was in flight or waited");
    ensure!(collector.logged(r#""outcome":"failed""#).is_empty());
    Ok(())
}
