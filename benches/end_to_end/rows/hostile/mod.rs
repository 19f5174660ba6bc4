//! What two kinds of hostile tenant cost everybody else: one with objects of thousands of
//! owner references, and one whose admission webhook never answers.

use anyhow::Result;

use crate::figure::{Contestant, Figure, Target};
use crate::row::{Measured, Row};
use crate::stage::Stage;

mod references;
mod webhook;

/// A figure of this row.
const fn figure(
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    digits: usize,
    targets: &'static [Target],
) -> Figure {
    Figure { key, title, unit, digits, targets }
}

/// The row.
pub const ROW: Row = Row {
    name: "hostile",
    about: |objects| {
        format!(
            "{} objects × {} owner references, then a webhook that hangs",
            references::OBJECTS,
            references::references(objects)
        )
    },
    figures: &[
        figure("quiet", "ten-object cascade on a quiet cluster, median", "s", 3, &[]),
        figure("beside", "beside the references, median", "s", 3, &[]),
        figure("slower", "ratio of the two", "×", 2, &[Target::AtMost(2.0)]),
        figure("worst", "beside the references, slowest", "s", 3, &[]),
        figure("growth", "memory added by the references, peak", "MiB", 1, &[Target::AtMost(50.0)]),
        figure("log", "log per minute beside the references", "MB", 3, &[Target::AtMost(1.0)]),
        figure("cpu", "CPU per minute beside the references", "s", 2, &[Target::OfPeerAtMost(1.0)]),
        figure("webhook_median", "life of garbage elsewhere beside the webhook, median", "s", 3, &[]),
        figure("webhook_worst", "the longest", "s", 3, &[Target::AtMost(2.0)]),
    ],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: None,
    measure: |stage, contestant, namespace| Box::pin(measure(stage, contestant, namespace)),
};

async fn measure(stage: &Stage, contestant: Contestant, namespace: &str) -> Result<Measured> {
    let mut measured = references::measure(stage, contestant, namespace).await?;
    measured.extend(webhook::measure(stage, contestant, namespace).await?);
    Ok(measured)
}
