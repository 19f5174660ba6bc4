//! A collector in a cluster without objects.

use anyhow::Context as _;

use crate::figure::{Contestant, Figure};
use crate::row::Row;

/// The row.
pub const ROW: Row = Row {
    name: "empty",
    about: |_| "memory, empty cluster".to_owned(),
    figures: &[
        Figure { key: "resident", title: "resident", unit: "MiB", digits: 1, targets: &[] },
        Figure { key: "peak", title: "peak", unit: "MiB", digits: 1, targets: &[] },
    ],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: None,
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            let collector = stage.collector_at_rest(contestant, namespace).await?;
            let memory = collector.context("the limit has no memory")?.memory()?;
            Ok(vec![("resident", memory.resident), ("peak", memory.peak)])
        })
    },
};
