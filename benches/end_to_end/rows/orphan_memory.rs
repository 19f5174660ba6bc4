//! The memory that orphaning many dependents takes.

use anyhow::Context as _;

use crate::cascade;
use crate::figure::{Contestant, Figure, Target};
use crate::objects::Mode;
use crate::row::Row;

/// The number of dependents: 5,000 at the usual size.
const fn dependents(objects: usize) -> usize {
    objects * 5 / 4
}

/// The row.
pub const ROW: Row = Row {
    name: "orphan-memory",
    about: |objects| format!("memory while orphaning {} dependents", dependents(objects)),
    figures: &[
        Figure { key: "before", title: "before", unit: "MiB", digits: 1, targets: &[] },
        Figure {
            key: "growth",
            title: "growth to the peak",
            unit: "MiB",
            digits: 1,
            targets: &[Target::AtMost(5.0)],
        },
    ],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: None,
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            let dependents = dependents(stage.scale.objects);
            let outcome = cascade::run(stage, contestant, namespace, Mode::Orphan, 1, dependents).await?;
            let cost = outcome.collector.context("the limit has no memory")?;
            let growth = cost.after.peak - cost.before.resident;
            Ok(vec![("before", cost.before.resident), ("growth", growth)])
        })
    },
};
