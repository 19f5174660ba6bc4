//! Objects that name thousands of owners, or owners by megabytes of text: the API server accepts 8,000
//! references, or a uid of a megabyte, on one ConfigMap. Other objects, the log and the memory must not
//! be affected.

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::conformance::stage::status;
use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Matcher, Request, Verb};
use kube_gc_testkit::{Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    thousands_of_owners_of_an_unserved_kind_delay_no_other_object,
    each_absent_owner_of_a_large_object_is_looked_up_once_and_others_go_first,
    four_large_objects_are_worked_on_at_a_time,
    a_namespace_that_floods_the_pool_for_large_objects_delays_another_by_a_turn,
}

/// The limit of the API server for one object, about a megabyte.
const REFERENCES: usize = 8000;
const LEASES: &str = "leases.coordination.k8s.io";
/// The number of such objects.
const OBJECTS: usize = 5;
/// The number of workers for objects with more than eight references.
const WORKERS: usize = 4;
/// The maximum length of a log line: 4 KiB for all of its values, and their names.
const LONGEST_LINE: usize = 4096 + 512;

/// A reference to the owner with this number. Each object uses its own range of numbers.
fn reference(api_version: &str, kind: &str, number: usize) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": format!("nobody-{number}"),
        "uid": format!("5eed0000-0000-4000-8000-{number:012x}"),
    })
}

/// Creates objects with this many owners each.
async fn create_fat(
    ns: &Ns,
    objects: usize,
    references: usize,
    owner: impl Fn(usize) -> Value,
) -> Result<Vec<Obj>> {
    let object = |number: usize| {
        let each = (0..references).map(|place| owner(number * references + place));
        each.fold(ns.configmap(format!("fat-{number}")), kube_gc_testkit::cluster::Builder::owner_reference)
    };
    // One after another, because together they are many megabytes.
    let mut created = Vec::new();
    for number in 0..objects {
        created.push(object(number).create().await?);
    }
    Ok(created)
}

/// Deletes an owner with ten dependents in its own namespace, and waits until all are gone.
async fn cascade(stage: &Stage, name: &str) -> Result<()> {
    let ns = stage.cluster.namespace().await?;
    let owner = ns.configmap(format!("{name}-owner")).create().await?;
    let ten = (0..10).map(|number| ns.secret(format!("{name}-{number}")).owned_by(&owner));
    let ten = create_all(ten).await?;
    stage.cluster.delete(&owner, Policy::Background).await?;
    try_join_all(ten.iter().map(|object| stage.gone(object))).await?;
    Ok(())
}

/// The size of the log so far. Fails if a line is too long.
fn log_bytes(collector: &Collector) -> Result<usize> {
    let lines = collector.logged("");
    for line in &lines {
        ensure!(line.len() <= LONGEST_LINE, "a line of {} bytes: {line:.300}…", line.len());
    }
    Ok(lines.iter().map(|line| line.len() + 1).sum())
}

/// Waits until each object has been tried often enough to show in the log.
async fn tried(collector: &Collector, fat: &[Obj], times: u64) -> Result<()> {
    poll(&format!("each large object to be tried {times} times"), async || {
        let page = collector.get_debug("/debug/stuck?limit=1000").await?.json()?;
        let stuck = page["stuck"].as_array().context("no list")?;
        let is_tried = |object: &Obj| {
            let mut entries = stuck.iter().filter(|entry| entry["object"]["uid"] == object.uid.as_str());
            entries.next().and_then(|entry| entry["attempts"].as_u64()) >= Some(times)
        };
        Ok(fat.iter().all(is_tried))
    })
    .await
}

/// The resident memory of the collector in MiB.
fn memory(collector: &Collector) -> Result<u64> {
    Ok(status(collector, "VmRSS")? / 1024)
}

/// Leader election with a Lease in the namespace of the test.
fn leader(stage: &Stage) -> Options {
    Options::config(format!("[leader]\nenabled = true\nnamespace = \"{}\"\n", stage.ns.name()))
}

/// The look-ups of the owners that do not exist.
fn look_ups(stage: &Stage) -> Matcher {
    let is_owner = |request: &Request| request.name.as_ref().is_some_and(|name| name.starts_with("nobody-"));
    stage.here(Verb::Get).of("configmaps").when(is_owner)
}

/// The objects fail for ever (rule 8.4).
async fn thousands_of_owners_of_an_unserved_kind_delay_no_other_object() -> Result<()> {
    let stage = Stage::alone().await?;
    let collector = stage.collector_with(leader(&stage)).await?;
    cascade(&stage, "before").await?;
    let (memory_before, log_before) = (memory(&collector)?, log_bytes(&collector)?);
    let mark = stage.proxy.mark();
    let fat = create_fat(&stage.ns, OBJECTS, REFERENCES, |n| reference("nobody.example.com/v1", "Nobody", n))
        .await?;
    cascade(&stage, "meanwhile").await?;
    tried(&collector, &fat, 5).await?;

    // Each object of a cascade of ten has a line of about 500 bytes, and so has each try of these
    // objects.
    let logged = log_bytes(&collector)? - log_before;
    ensure!(logged < 10 * 1000 + OBJECTS * LONGEST_LINE, "{logged} bytes of log");
    for object in &fat {
        let lines = collector.logged(&object.uid);
        ensure!(lines.len() == 1, "{} lines about {object}: {lines:#?}", lines.len());
        let line: Value = serde_json::from_str(&lines[0])?;
        let shown = line["owners"].as_array().map_or(0, Vec::len);
        ensure!((1..=16).contains(&shown) && line["more_owners"] == REFERENCES - shown, "{line}");
    }
    let grown = memory(&collector)?.saturating_sub(memory_before);
    eprintln!("{OBJECTS} objects with {REFERENCES} references each: {grown} MiB, {logged} bytes of log");
    ensure!(grown <= 50, "{grown} MiB more");
    let other = |request: &Request| request.resource != LEASES;
    let lookups = stage.proxy.since(mark, &stage.here(Verb::Get).when(other));
    ensure!(lookups.is_empty(), "{} requests about them", lookups.len());
    let metrics = collector.metrics().await?;
    let lost = metrics.get("kube_gc_leader_transitions_total{transition=\"lost\"}");
    ensure!(lost.is_none_or(|lost| *lost == 0.0) && metrics["kube_gc_leader"] == 1.0, "the lease was lost");

    let page = collector.get_debug(&format!("/debug/decisions?uid={}", fat[0].uid)).await?.json()?;
    let decision = &page["decisions"][0];
    ensure!(decision["owners"].as_array().map(Vec::len) == Some(16), "{decision}");
    ensure!(decision["more_owners"] == REFERENCES - 16, "{decision}");
    let stuck = collector.get_debug("/debug/stuck").await?.body;
    ensure!(stuck.len() < OBJECTS * LONGEST_LINE, "{} bytes on the page", stuck.len());
    ensure!(stuck.contains("and 7,984 more"), "{stuck}");
    let errors = collector.metric("kube_gc_queue_error_bytes").await?;
    ensure!(errors > 0.0 && errors <= (OBJECTS * 4096) as f64, "{errors} bytes of errors");
    let decisions = collector.metric("kube_gc_decision_log_bytes").await?;
    ensure!(decisions > 0.0 && decisions <= 4_194_304.0, "{decisions} bytes of decisions");
    stage.cluster.assert_kept(&fat).await?;
    collector.stop().await
}

async fn each_absent_owner_of_a_large_object_is_looked_up_once_and_others_go_first() -> Result<()> {
    const ABSENT: usize = 1500;
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let mark = stage.proxy.mark();
    let lookups = || stage.proxy.since(mark, &look_ups(&stage));
    let fat = create_fat(&stage.ns, 2, ABSENT, |n| reference("v1", "ConfigMap", n)).await?;
    cascade(&stage, "meanwhile").await?;
    let before = lookups().len();
    ensure!(
        before < 2 * ABSENT,
        "all {before} owners were looked up before another tenant's cascade was complete"
    );
    try_join_all(fat.iter().map(|object| stage.gone(object))).await?;
    let all = lookups();
    let distinct: std::collections::BTreeSet<_> =
        all.iter().map(|lookup| lookup.request.path.clone()).collect();
    eprintln!("{} requests for {} owners, {before} of them before the cascade", all.len(), distinct.len());
    ensure!(distinct.len() == 2 * ABSENT, "{} owners were looked up", distinct.len());
    ensure!(all.len() == distinct.len(), "{} requests for {} owners", all.len(), distinct.len());
    for object in &fat {
        stage.only(Verb::Delete, object)?;
    }
    log_bytes(&collector)?;
    stage.cluster.settled(&collector).await?;
    collector.stop().await
}

/// The look-ups of the owners are not answered, so each worker of the pool is busy. All objects exist
/// when the pool opens, long before a look-up counts as hanging and its worker is replaced.
async fn four_large_objects_are_worked_on_at_a_time() -> Result<()> {
    let stage = Stage::set().await?;
    let fat = create_fat(&stage.ns, 2 * WORKERS, 65, |n| reference("v1", "ConfigMap", n)).await?;
    let hold = stage.proxy.hold(look_ups(&stage));
    let collector = Collector::start_with(stage.proxy.kubeconfig(), Options::default()).await?;
    poll("all workers for large objects to be busy", async || {
        let queues = collector.get_debug("/debug/queues").await?.json()?;
        let mut queues = queues.as_array().context("no list")?.iter();
        let large = queues.find(|queue| queue["name"] == "garbage_collector_attempt_to_delete_large");
        // If there were another worker, it would take one of the objects that wait.
        Ok(large.is_some_and(|queue| queue["processing"] == WORKERS && queue["ready"] == WORKERS))
    })
    .await?;
    hold.release();
    try_join_all(fat.iter().map(|object| stage.gone(object))).await?;
    collector.stop().await
}

/// Rule 8.14. The owners are looked up at a limited rate, so most of them are still to be looked up when
/// the object of the other namespace is gone.
async fn a_namespace_that_floods_the_pool_for_large_objects_delays_another_by_a_turn() -> Result<()> {
    const FLOOD: usize = 50;
    const ABSENT: usize = 64;
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let other = stage.cluster.namespace().await?;
    let mark = stage.proxy.mark();
    let fat = create_fat(&stage.ns, FLOOD, ABSENT, |n| reference("v1", "ConfigMap", n)).await?;
    let lookups = || stage.proxy.since(mark, &look_ups(&stage)).len();
    let few = create_fat(&other, 1, 20, |n| reference("v1", "ConfigMap", n)).await?;
    stage.gone(&few[0]).await?;
    let before = lookups();
    eprintln!("{before} look-ups of {} before the other namespace was served", FLOOD * ABSENT);
    ensure!(before < FLOOD * ABSENT / 2, "{before} owners were looked up first");
    try_join_all(fat.iter().map(|object| stage.gone(object))).await?;
    ensure!(lookups() == FLOOD * ABSENT, "{} look-ups", lookups());
    collector.stop().await
}
