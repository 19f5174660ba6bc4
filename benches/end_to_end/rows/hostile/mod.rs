//! The effect of hostile tenants on others: one with objects of thousands of owner references,
//! and one whose admission webhook never answers.

use anyhow::Result;

use self::references::Owners;
use crate::figure::{Contestant, Figure, Target};
use crate::row::{Measured, Row, Step};
use crate::stage::Stage;

mod references;
mod webhook;

/// A figure of these rows.
const fn figure(
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    digits: usize,
    targets: &'static [Target],
) -> Figure {
    Figure { key, title, unit, digits, targets }
}

const QUIET: Figure = figure("quiet", "ten-object cascade on a quiet cluster, median", "s", 3, &[]);
const BESIDE: Figure = figure("beside", "beside the references, median", "s", 3, &[]);
const SLOWER: Figure = figure("slower", "ratio of the two", "×", 2, &[Target::AtMost(2.0)]);
const WORST: Figure = figure("worst", "beside the references, slowest", "s", 3, &[]);
const GROWTH: Figure =
    figure("growth", "memory added by the references, peak", "MiB", 1, &[Target::AtMost(50.0)]);
const LOG: Figure = figure("log", "log per minute beside the references", "MB", 3, &[Target::AtMost(1.0)]);
const CPU_TITLE: &str = "CPU per minute beside the references";
const CPU: Figure = figure("cpu", CPU_TITLE, "s", 2, &[Target::OfPeerAtMost(1.0)]);
const STANDBY_CPU: Figure = figure("cpu", CPU_TITLE, "s", 2, &[]);

/// References to a kind that is not served, and then a webhook.
pub const ROW: Row = Row {
    name: "hostile",
    about: |objects| format!("{}, then a webhook that hangs", about(objects, "a kind that is not served")),
    figures: &[
        QUIET,
        BESIDE,
        SLOWER,
        WORST,
        GROWTH,
        LOG,
        CPU,
        figure("webhook_median", "life of garbage elsewhere beside the webhook, median", "s", 3, &[]),
        figure("webhook_worst", "the longest", "s", 3, &[Target::AtMost(2.0)]),
    ],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: None,
    measure: |stage, contestant, namespace| Box::pin(measure(stage, contestant, namespace)),
};

/// References to objects that do not exist.
pub const ABSENT: Row = variant(
    "hostile-absent",
    |objects| about(objects, "absent ConfigMaps"),
    |stage, contestant, namespace| {
        Box::pin(references::measure(stage, contestant, namespace, Owners::Absent))
    },
);

/// References to objects that exist.
pub const LIVING: Row = variant(
    "hostile-living",
    |objects| about(objects, "ConfigMaps that exist"),
    |stage, contestant, namespace| {
        Box::pin(references::measure(stage, contestant, namespace, Owners::Living))
    },
);

/// The cost of the references for a replica that is not the leader.
pub const STANDBY: Row = Row {
    name: "hostile-standby",
    about: |objects| format!("on a standby: {}", about(objects, "a kind that is not served")),
    figures: &[QUIET, BESIDE, SLOWER, WORST, GROWTH, LOG, STANDBY_CPU],
    contestants: &[Contestant::KubeGc],
    prepare: None,
    measure: |stage, _, namespace| Box::pin(references::measure_standby(stage, namespace)),
};

const fn variant(
    name: &'static str,
    about: fn(usize) -> String,
    measure: for<'a> fn(&'a Stage, Contestant, &'a str) -> Step<'a, Measured>,
) -> Row {
    Row {
        name,
        about,
        figures: &[QUIET, BESIDE, SLOWER, WORST, GROWTH, LOG, CPU],
        contestants: &[Contestant::Peer, Contestant::KubeGc],
        prepare: None,
        measure,
    }
}

fn about(objects: usize, owners: &str) -> String {
    let references = references::references(objects);
    format!("{} objects × {references} owner references to {owners}", references::OBJECTS)
}

async fn measure(stage: &Stage, contestant: Contestant, namespace: &str) -> Result<Measured> {
    let mut measured = references::measure(stage, contestant, namespace, Owners::Unserved).await?;
    measured.extend(webhook::measure(stage, contestant, namespace).await?);
    Ok(measured)
}
