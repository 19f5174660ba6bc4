//! Many types that appear and disappear.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::conformance::stage::{Stage, status};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, Collector, Crd, Ns, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    removed_types_leave_nothing_behind,
}

const GROUP: &str = "many.example.com";
/// The number of types.
const TYPES: usize = 200;
/// The number of concurrent creations or removals.
const PARALLEL: usize = 16;
/// How much larger, in KiB, the collector may be after the types have appeared and disappeared a
/// second time than after the first: twenty for each type. A few names and numbers of a type may
/// stay, but no list, watch or task.
const ALLOWANCE: u64 = 4096;

/// Waits until none of these types is watched or in the graph.
async fn forgotten(cluster: &Cluster, collector: &Collector) -> Result<()> {
    poll("all watches of the types to end", async || Ok(cluster.watches_of(GROUP).await? == 0.0)).await?;
    poll("all monitors of the types to go", async || Ok(monitors(collector).await?.is_empty())).await?;
    // Updated when a monitor has ended.
    let mut graph = String::new();
    let forgotten = poll("the graph to forget the types", async || {
        graph = collector.get_debug("/debug/graph?format=json").await?.body;
        Ok(!graph.contains(GROUP))
    })
    .await;
    forgotten.with_context(|| format!("still in the graph: {graph}"))
}

/// The monitors of the types.
async fn monitors(collector: &Collector) -> Result<Vec<Value>> {
    let monitors = collector.monitors().await?.into_iter();
    Ok(monitors.filter(|monitor| monitor["group"] == GROUP).collect())
}

/// Creates all types, an owner and a dependent of each, deletes the owners, and
/// removes the types again.
async fn come_and_go(cluster: &Cluster, ns: &Ns, collector: &Collector, round: usize) -> Result<()> {
    let types: Vec<Crd> = stream::iter((0..TYPES).map(async |number| {
        let name = format!("type{number}s.{GROUP}");
        cluster.define(&name, Scope::Namespaced, &["v1"]).await
    }))
    .buffered(PARALLEL)
    .try_collect()
    .await?;
    for crd in &types {
        crd.served().await?;
    }
    let owners = types.iter().map(|crd| ns.object(crd.resource(), format!("owner-{round}")));
    let owners = create_all(owners).await?;
    let dependents = owners.iter().zip(&types).map(|(owner, crd)| {
        ns.object(crd.resource(), format!("dependent-{round}")).owned_by(owner).blocking()
    });
    let dependents = create_all(dependents).await?;
    poll("all types to be watched", async || {
        let monitors = monitors(collector).await?;
        Ok(monitors.iter().filter(|monitor| monitor["synced"] == true).count() == TYPES)
    })
    .await?;
    // The gauge is set once a second.
    poll("the graph to have nodes", async || Ok(collector.metric("kube_gc_graph_nodes").await? > 0.0))
        .await?;
    // Every second owner is deleted with its type.
    let going: Vec<_> = owners.iter().step_by(2).cloned().collect();
    cluster.delete_all(&going, Policy::Foreground).await?;
    poll("the owners to go", async || Ok(cluster.assert_gone(&going).await.is_ok())).await?;
    cluster.assert_gone(dependents.iter().step_by(2)).await?;
    cluster.assert_kept(owners.iter().skip(1).step_by(2)).await?;
    cluster.assert_kept(dependents.iter().skip(1).step_by(2)).await?;
    stream::iter(types.iter().map(Crd::undefine)).buffer_unordered(PARALLEL).try_collect::<()>().await?;
    for crd in &types {
        crd.removed().await?;
    }
    Ok(())
}

/// 200 types are added and removed twice. No watch, task, node or memory is left behind
/// (rule 2.17).
async fn removed_types_leave_nothing_behind() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    // Freed memory is returned to the system at once, so the rest is in use.
    let collector = stage.collector_with(Options::env("_RJEM_MALLOC_CONF", "dirty_decay_ms:0")).await?;
    cluster.settled(&collector).await?;
    let (mut first, mut sizes) = (f64::MAX, Vec::new());
    for round in 0..2 {
        come_and_go(cluster, &ns, &collector, round).await.with_context(|| format!("round {round}"))?;
        forgotten(cluster, &collector).await.with_context(|| format!("round {round}"))?;
        cluster.settled(&collector).await?;
        // Each connection has a task, and there is one for each concurrent request. A task left for each
        // type would be two hundred. Gauges are set once a second.
        let few = f64::from(u32::try_from(TYPES)? * 3 / 5);
        let tasks = async || collector.metric("kube_gc_tasks").await;
        poll("the tasks of the types to end", async || Ok(tasks().await? <= first + few)).await?;
        first = first.min(tasks().await?);
        sizes.push(status(&collector, "VmRSS")?);
    }
    eprintln!("KiB after each round: {sizes:?}");
    let more = sizes[1].saturating_sub(sizes[0]);
    ensure!(more <= ALLOWANCE, "{more} KiB more after the second time: {sizes:?}");
    collector.stop().await?;
    stage.clear().await
}
