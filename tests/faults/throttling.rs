//! A server that is overloaded and answers 429.

use anyhow::{Context as _, Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::{Exchange, Matcher, Request, Verb};
use kube_gc_testkit::{Obj, Policy};

kube_gc_testkit::scenarios! {
    a_server_with_a_low_concurrency_limit_gets_few_extra_requests,
}

/// The number of concurrent requests that the server accepts. The collector begins with 20.
const LIMIT: usize = 4;
/// The number of requests after which the collector has found the limit. The first rounds are
/// larger in total.
const FITS_AFTER: usize = 100;
/// The number of objects under each policy.
const OBJECTS: usize = 1000;

/// Requests about single objects.
fn about_objects(stage: &Stage, mark: usize) -> Vec<Exchange> {
    let is_about_one = |request: &Request| matches!(request.verb, Verb::Get | Verb::Delete | Verb::Patch);
    stage.proxy.since(mark, &Matcher::default().within(stage.ns.name()).when(is_about_one))
}

fn refusals(exchanges: &[Exchange]) -> impl Iterator<Item = &Exchange> {
    exchanges.iter().filter(|exchange| exchange.status == Some(429))
}

/// An owner whose dependents are deleted with it, and one whose dependents are orphaned.
async fn families(stage: &Stage) -> Result<(Obj, Vec<Obj>, Obj, Vec<Obj>)> {
    let ns = &stage.ns;
    let deleted = ns.configmap("takes").create().await?;
    let orphaned = ns.configmap("lets-go").create().await?;
    let of = async |owner: &Obj, prefix: &str| {
        create_all((0..OBJECTS).map(|i| ns.secret(format!("{prefix}-{i}")).owned_by(owner))).await
    };
    let go = of(&deleted, "goes").await?;
    let stay = of(&orphaned, "stays").await?;
    Ok((deleted, go, orphaned, stay))
}

/// Thousands of requests are sent to a server that accepts four at a time and rejects all others.
/// Each request is sent about once. Fails if every worker finds the limit by itself, or if the
/// collector uses less than the server accepts.
///
/// The bound: the first rounds have at most 20 requests, then half as many and so on, until the
/// limit fits. After that, one request is rejected for each increase, which takes 16 rounds of
/// four. The scenario allows twice that number, because requests that are sent together do not
/// arrive together.
async fn a_server_with_a_low_concurrency_limit_gets_few_extra_requests() -> Result<()> {
    let stage = Stage::set().await?;
    let (deleted, go, orphaned, stay) = families(&stage).await?;
    let collector = stage.collector().await?;
    let mark = stage.proxy.mark();
    stage.proxy.limit_concurrency(LIMIT);
    stage.cluster.delete(&deleted, Policy::Background).await?;
    stage.cluster.delete(&orphaned, Policy::Orphan).await?;
    stage.cluster.settled(&collector).await?;

    let sent = about_objects(&stage, mark);
    let all = refusals(&sent).count();
    let served = sent.len() - all;
    let late = refusals(sent.get(FITS_AFTER..).context("too few requests")?).count();
    eprintln!("{served} requests were served, {all} rejected, {late} of these after the first {FITS_AFTER}");
    let of_climbs = 2 * served / (16 * LIMIT);
    ensure!(all > 0, "no request was rejected, so nothing is tested");
    ensure!(all <= 20 + 10 + 5 + of_climbs, "{all} refusals for {served} requests");
    ensure!(late <= of_climbs, "{late} refusals after the first {FITS_AFTER}, of {served} requests");
    ensure!(served <= 2 * OBJECTS + 2 * OBJECTS / 50, "{served} requests for {} objects", 2 * OBJECTS);
    ensure!(stage.proxy.peak_concurrency() == LIMIT, "the collector did not use what the server admits");
    let limit = collector.metric("kube_gc_api_concurrency_limit").await?;
    ensure!((1.0..=f64::from(u8::try_from(LIMIT)?) + 1.0).contains(&limit), "the limit shown is {limit}");
    ensure!(collector.metric("kube_gc_api_concurrency_cuts_total").await? >= 3.0, "no cut was counted");

    stage.cluster.assert_gone(&go).await?;
    stage.cluster.assert_gone([&deleted, &orphaned]).await?;
    for object in &stay {
        stage.assert_owners(object, &[]).await?;
    }
    collector.stop().await
}
