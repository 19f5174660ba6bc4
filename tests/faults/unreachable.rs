//! An outage of the API server in the middle of a cascade.

use anyhow::{Result, ensure};
use tokio::time::Instant;

use crate::faults::stage::Stage;
use kube_gc_testkit::Policy;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Exchange, Outage, Verb};

kube_gc_testkit::scenarios! {
    an_outage_costs_few_probes_and_few_log_lines_and_work_resumes_at_once,
}

/// The number of dependents of the deleted owner.
const DEPENDENTS: usize = 5000;
/// The number of dependents that are deleted before the outage.
const BEFORE: usize = 500;
/// The maximum number of probes per second.
const PROBES: f64 = 5.0;
/// The maximum number of log lines of an outage, and of their bytes.
const LINES: usize = 100;
const BYTES: usize = 64 << 10;

/// While the API server is unreachable, one request at a time probes it (rule 8.8). Fails if each key, each
/// type and discovery notice the outage separately, with a log line for each try.
async fn an_outage_costs_few_probes_and_few_log_lines_and_work_resumes_at_once() -> Result<()> {
    let stage = Stage::alone().await?;
    let collector = stage.collector().await?;
    let owner = stage.ns.secret("owner").create().await?;
    let dependents = (0..DEPENDENTS).map(|n| stage.ns.configmap(format!("of-{n}")).owned_by(&owner));
    let dependents = create_all(dependents).await?;
    stage.cluster.settled(&collector).await?;
    let deletes = stage.here(Verb::Delete);
    stage.cluster.delete(&owner, Policy::Background).await?;
    stage.proxy.answered(BEFORE, &deletes).await?;

    let requests = async || collector.metric("kube_gc_requests_total").await;
    let before = collector.logged("").len();
    for (number, how) in [Outage::Refused, Outage::Hanging, Outage::Unavailable].into_iter().enumerate() {
        stage.proxy.set_outage(Some(how));
        // Until no request from before the outage was noticed is in flight.
        collector.log_line("the API server is unreachable").await?;
        let is_known = async || Ok(collector.metric("kube_gc_api_server_reachable").await? == 0.0);
        poll("the metric to say so", is_known).await?;
        let page = collector.get("/readyz?verbose").await?;
        let says_so = page.body.contains("[!]api-server warning: unreachable: ");
        ensure!(page.status == 200 && says_so, "{how:?}: {}", page.body);
        let (start, sent) = (Instant::now(), requests().await?);
        // Every 30 s.
        let still = async || Ok(collector.logged("is still unreachable").len() > number);
        poll("the outage to last", still).await?;
        let (sent, seconds) = (requests().await? - sent, start.elapsed().as_secs_f64());
        ensure!(sent <= PROBES * seconds, "{how:?}: {sent} requests in {seconds:.1} s");
    }
    let mut said = collector.logged("").split_off(before);
    // Of objects that were deleted before the outage.
    said.retain(|line| !line.contains(r#""outcome":"deleted""#));
    let bytes: usize = said.iter().map(|line| line.len() + 1).sum();
    ensure!(said.len() <= LINES && bytes <= BYTES, "{} lines, {bytes} bytes: {said:#?}", said.len());
    // What got no answer, or was not sent, has not failed.
    let decisions = async |outcome: &str| {
        collector.metric_of("kube_gc_decisions_total", &[&format!("outcome=\"{outcome}\"")]).await
    };
    ensure!(decisions("failed").await? == 0.0, "some have failed");
    let waited = decisions("unknown").await? + decisions("deferred").await?;
    ensure!(waited > 0.0, "nothing was in flight or waited");
    let is_gone = |delete: &&Exchange| delete.status == Some(200);
    let gone = stage.proxy.all(&deletes).iter().filter(is_gone).count();
    ensure!(gone < DEPENDENTS / 2, "too late for the middle: {gone}");

    stage.proxy.set_outage(None);
    collector.log_line("the API server is reachable again").await?;
    stage.cluster.settled(&collector).await?;
    let page = collector.get("/readyz?verbose").await?;
    ensure!(!page.body.contains("[!]monitor/") && !page.body.contains("api-server"), "{}", page.body);
    stage.cluster.assert_gone(&dependents).await?;
    collector.stop().await
}
