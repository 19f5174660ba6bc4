//! A collector starts in a cluster with many objects, none of which is garbage.

use anyhow::{Context as _, Result};

use crate::figure::{Contestant, Figure, Target};
use crate::http::Call;
use crate::objects::{config_map, make_all, make_namespace};
use crate::row::Row;
use crate::stage::{Stage, is_synced};

/// The number of namespaces.
const NAMESPACES: usize = 100;
/// The length of the annotation of each object.
const ANNOTATION: usize = 300;

/// The number of objects: 100,000 at the usual size.
const fn size(objects: usize) -> usize {
    objects * 25
}

/// The row.
pub const ROW: Row = Row {
    name: "full",
    about: |objects| format!("{} ConfigMaps with {ANNOTATION} B of annotation", size(objects)),
    figures: &[
        Figure {
            key: "sync_seconds",
            title: "start to all monitors synced",
            unit: "s",
            digits: 2,
            targets: &[Target::OfPeerAtMost(0.5)],
        },
        Figure {
            key: "sync_cpu",
            title: "CPU until then",
            unit: "s",
            digits: 2,
            targets: &[Target::OfPeerAtMost(0.5)],
        },
        Figure { key: "rest_cpu", title: "CPU until at rest", unit: "s", digits: 2, targets: &[] },
        Figure {
            key: "resident",
            title: "memory, resident at rest",
            unit: "MiB",
            digits: 1,
            targets: &[Target::AtMost(45.0)],
        },
        Figure {
            key: "peak",
            title: "memory, peak",
            unit: "MiB",
            digits: 1,
            targets: &[Target::AtMost(45.0)],
        },
    ],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: Some(|stage| Box::pin(prepare(stage))),
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            stage.collect_garbage().await?;
            let collector = stage.start_collector(contestant)?.context("the limit does not start")?;
            let (synced, _) = collector.logged(is_synced(contestant)).await?;
            let sync_cpu = collector.cpu()?;
            collector.quiet().await?;
            let rest_cpu = collector.cpu()?;
            let memory = collector.memory()?;
            // A contestant that says that it knows everything must prove it.
            stage.settle(&collector, namespace).await?;
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

async fn prepare(stage: &Stage) -> Result<()> {
    let name = |number: usize| format!("full-{:03}", number % NAMESPACES);
    for number in 0..NAMESPACES {
        make_namespace(&stage.client, &name(number)).await?;
    }
    let annotation = "x".repeat(ANNOTATION);
    let objects = (0..size(stage.scale.objects)).map(|number| {
        let mut object = config_map(&format!("object-{number:07}"), None);
        object["metadata"]["annotations"] = serde_json::json!({ "note": annotation });
        (name(number), object)
    });
    make_all(&stage.client, objects).await?;
    // The first list of this size makes the server request memory from the system, which can take
    // as long as everything else on a virtual machine.
    stage.client.send(Call::get("/api/v1/configmaps?resourceVersion=0")).await?.success()?;
    Ok(())
}
