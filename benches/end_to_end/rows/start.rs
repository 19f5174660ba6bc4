//! A collector starts, in a cluster without objects or with many, none of which is garbage.

use anyhow::{Context as _, Result};
use kube_gc_testkit::Ns;
use kube_gc_testkit::cluster::create_all;
use serde_json::json;

use super::{Measured, Row};
use crate::contestants::Contestant;
use crate::proc;
use crate::report::Figure;
use crate::stage::Stage;

/// The namespaces of a full cluster.
const NAMESPACES: usize = 100;
/// The length of the annotation of each of its objects.
const ANNOTATION: usize = 300;
/// The length of the data of each of them.
const DATA: usize = 3000;

const RESIDENT: Figure =
    Figure { key: "resident", title: "memory, resident at rest", unit: "MiB", digits: 1 };
const PEAK: Figure = Figure { key: "peak", title: "memory, peak", ..RESIDENT };
const SECONDS: Figure = Figure { key: "rest_cpu", title: "CPU until at rest", unit: "s", digits: 2 };

/// The number of objects in a full cluster: 100,000 at the usual size.
const fn full(objects: usize) -> usize {
    objects * 25
}

/// The number of objects that fill the server's memory: 40,000 at the usual size.
const fn large(objects: usize) -> usize {
    objects * 10
}

/// A collector at rest in an empty cluster.
pub const EMPTY: Row = Row {
    name: "empty",
    about: |_| "memory, empty cluster".to_owned(),
    figures: &[RESIDENT, PEAK],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: None,
    measure: |stage, contestant, ns| {
        Box::pin(async move {
            let collector = stage.collector_at_rest(contestant, ns).await?;
            let memory = collector.context("the limit has no memory")?.memory()?;
            Ok(vec![("resident", memory.resident), ("peak", memory.peak)])
        })
    },
};

/// The time until a collector knows all objects of a full cluster.
pub const FULL: Row = Row {
    name: "full",
    about: |objects| format!("{} ConfigMaps with {ANNOTATION} B of annotation", full(objects)),
    figures: &[
        Figure { key: "sync_seconds", title: "start to all monitors synced", ..SECONDS },
        Figure { key: "sync_cpu", title: "CPU until then", ..SECONDS },
        SECONDS,
        RESIDENT,
        PEAK,
    ],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: Some(|stage| Box::pin(fill(stage))),
    measure: |stage, contestant, ns| {
        Box::pin(async move {
            stage.collect_garbage().await?;
            let collector = stage.start_collector(contestant)?.context("the limit does not start")?;
            let (synced, _) = collector.logged(|line| contestant.is_synced(line)).await?;
            let sync_cpu = collector.cpu()?;
            collector.quiet().await?;
            let rest_cpu = collector.cpu()?;
            let memory = collector.memory()?;
            // A contestant that says that it knows everything must prove it.
            stage.settle(&collector, ns).await?;
            Ok(vec![
                ("sync_seconds", (synced - collector.begun()).as_secs_f64()),
                ("sync_cpu", sync_cpu.as_secs_f64()),
                ("rest_cpu", rest_cpu.as_secs_f64()),
                ("resident", memory.resident),
                ("peak", memory.peak),
            ])
        })
    },
};

async fn fill(stage: &Stage) -> Result<()> {
    let annotation = "x".repeat(ANNOTATION);
    for _ in 0..NAMESPACES {
        let ns = stage.cluster.namespace().await?;
        let names = (0..full(stage.objects) / NAMESPACES).map(|number| format!("object-{number:07}"));
        create_all(names.map(|name| ns.configmap(name).annotation("note", &annotation))).await?;
    }
    // The first list of this size makes the server request memory from the system, which can take
    // as long as everything else on a virtual machine.
    stage.client.get("/api/v1/configmaps?resourceVersion=0").await?;
    Ok(())
}

/// The memory of the API server while a collector starts, if it streams lists.
pub const SERVER_MEMORY: Row = Row {
    name: "server-memory",
    about: |objects| format!("{} ConfigMaps with {DATA} B of data, if lists are streamed", large(objects)),
    figures: &[
        Figure { key: "server_peak", title: "memory of the API server, peak", ..PEAK },
        Figure { key: "server_growth", title: "its growth by the start", ..PEAK },
    ],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: Some(|stage| Box::pin(fill_server(stage))),
    measure: |stage, contestant, ns| Box::pin(server_memory(stage, contestant, ns)),
};

/// Whether the API server streams lists. Such a watch ends after a second.
async fn streams_lists(stage: &Stage) -> Result<bool> {
    let watch = "/api/v1/nodes?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&timeoutSeconds=1";
    Ok(stage.client.get(watch).await.is_ok())
}

async fn fill_server(stage: &Stage) -> Result<()> {
    if !streams_lists(stage).await? {
        crate::progress("  skipped: this API server does not stream lists");
        return Ok(());
    }
    let ns = stage.cluster.namespace().await?;
    let data = json!({ "data": "x".repeat(DATA) });
    // A thousand at a time, because each is kept as it was created until all are.
    for first in (0..large(stage.objects)).step_by(1000) {
        let names = (first..first + 1000).map(|number| format!("object-{number:07}"));
        create_all(names.map(|name| ns.configmap(name).field("data", data.clone()))).await?;
    }
    Ok(())
}

async fn server_memory(stage: &Stage, contestant: Contestant, ns: &Ns) -> Result<Measured> {
    if !streams_lists(stage).await? {
        return Ok(Vec::new());
    }
    let server = *stage.servers().first().context("the API server is no process of this machine")?;
    stage.collect_garbage().await?;
    proc::forget_peak(server)?;
    let before = proc::memory(server)?;
    let collector = stage.start_collector(contestant)?.context("the limit does not start")?;
    collector.logged(|line| contestant.is_synced(line)).await?;
    collector.quiet().await?;
    let after = proc::memory(server)?;
    stage.settle(&collector, ns).await?;
    Ok(vec![("server_peak", after.peak), ("server_growth", after.peak - before.peak)])
}
