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
            "{} objects with {} owner references each; {} objects behind a webhook that hangs",
            references::OBJECTS,
            references::references(objects),
            webhook::held(objects)
        )
    },
    figures: &[
        figure("quiet", "ten-object cascade without them, median", "s", 3, &[]),
        figure("beside", "the same beside the references, median", "s", 3, &[]),
        figure("slower", "that over the former", "×", 2, &[Target::AtMost(2.0)]),
        figure("worst", "the slowest beside the references", "s", 3, &[]),
        figure("growth", "growth of memory to the peak", "MiB", 1, &[Target::AtMost(50.0)]),
        figure("log", "log per minute", "MB", 3, &[Target::AtMost(1.0)]),
        figure("cpu", "processor time per minute", "s", 2, &[Target::OfPeerAtMost(1.0)]),
        figure("webhook_median", "other namespaces' garbage beside the webhook, median", "s", 3, &[]),
        figure("webhook_worst", "the slowest of it", "s", 3, &[Target::AtMost(2.0)]),
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
