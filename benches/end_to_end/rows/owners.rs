//! Many owners with a few dependents each, deleted in the background.

use crate::cascade;
use crate::figure::{Contestant, Figure, Target};
use crate::objects::Mode;
use crate::row::{Row, nothing};

/// How many dependents each has.
const DEPENDENTS: usize = 10;

/// How many owners: 500 at the usual size.
const fn owners(objects: usize) -> usize {
    objects / 8
}

/// The row.
pub const ROW: Row = Row {
    name: "owners",
    about: |objects| format!("{} owners × {DEPENDENTS} dependents", owners(objects)),
    figures: &[
        Figure {
            key: "objects_per_second",
            title: "objects per second",
            unit: "1/s",
            digits: 0,
            targets: &[],
        },
        Figure {
            key: "requests_per_object",
            title: "requests per object",
            unit: "",
            digits: 3,
            targets: &[],
        },
        Figure {
            key: "cpu_per_object",
            title: "CPU of the collector per object",
            unit: "ms",
            digits: 3,
            targets: &[Target::AtMost(0.25)],
        },
    ],
    contestants: &Contestant::ALL,
    prepare: nothing,
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            let owners = owners(stage.scale.objects);
            let outcome =
                cascade::run(stage, contestant, namespace, Mode::Background, owners, DEPENDENTS).await?;
            Ok(outcome.measured())
        })
    },
};
