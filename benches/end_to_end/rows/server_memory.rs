//! The memory of the API server while a collector starts, on an API server that streams lists.

use anyhow::{Context as _, Result};

use crate::figure::{Contestant, Figure, Target};
use crate::http::Call;
use crate::objects::{config_map, make_all, make_namespace};
use crate::proc;
use crate::row::{Measured, Row};
use crate::stage::{Stage, is_synced};

/// Where the objects are.
const NAMESPACE: &str = "server-memory";
/// The length of the data of each object.
const DATA: usize = 3000;

/// The number of objects: 40,000 at the usual size.
const fn size(objects: usize) -> usize {
    objects * 10
}

/// The row.
pub const ROW: Row = Row {
    name: "server-memory",
    about: |objects| format!("{} ConfigMaps with {DATA} B of data, if lists are streamed", size(objects)),
    figures: &[
        Figure {
            key: "server_peak",
            title: "memory of the API server, peak",
            unit: "MiB",
            digits: 1,
            targets: &[Target::OfPeerAtMost(1.05)],
        },
        Figure {
            key: "server_growth",
            title: "its growth by the start",
            unit: "MiB",
            digits: 1,
            targets: &[],
        },
    ],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: Some(|stage| Box::pin(prepare(stage))),
    measure: |stage, contestant, namespace| Box::pin(measure(stage, contestant, namespace)),
};

/// Whether the API server streams lists. Such a watch ends after a second.
async fn streams_lists(stage: &Stage) -> Result<bool> {
    let watch = "/api/v1/nodes?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&timeoutSeconds=1";
    Ok(stage.client.send(Call::get(watch)).await?.status.is_success())
}

async fn prepare(stage: &Stage) -> Result<()> {
    if !streams_lists(stage).await? {
        crate::progress("  skipped: this API server does not stream lists");
        return Ok(());
    }
    make_namespace(&stage.client, NAMESPACE).await?;
    let data = "x".repeat(DATA);
    let objects = (0..size(stage.scale.objects)).map(|number| {
        let mut object = config_map(&format!("object-{number:07}"), None);
        object["data"] = serde_json::json!({ "data": data });
        (NAMESPACE.to_owned(), object)
    });
    make_all(&stage.client, objects).await.map(drop)
}

async fn measure(stage: &Stage, contestant: Contestant, namespace: &str) -> Result<Measured> {
    if !streams_lists(stage).await? {
        return Ok(Vec::new());
    }
    let server = *stage.servers().first().context("the API server is no process of this machine")?;
    stage.collect_garbage().await?;
    proc::forget_peak(server)?;
    let before = proc::memory(server)?;
    let collector = stage.start_collector(contestant)?.context("the limit does not start")?;
    collector.logged(is_synced(contestant)).await?;
    collector.quiet().await?;
    let after = proc::memory(server)?;
    stage.settle(&collector, namespace).await?;
    Ok(vec![("server_peak", after.peak), ("server_growth", after.peak - before.peak)])
}
