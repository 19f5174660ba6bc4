//! Many dependents that block one owner, which is deleted in the foreground.

use crate::cascade;
use crate::figure::{Contestant, Figure, Target};
use crate::objects::Mode;
use crate::row::{Row, nothing};

/// The row.
pub const ROW: Row = Row {
    name: "foreground",
    about: |objects| format!("foreground, {objects} blocking ConfigMaps"),
    figures: &[
        Figure {
            key: "objects_per_second",
            title: "objects per second",
            unit: "1/s",
            digits: 0,
            targets: &[Target::OfLimit(0.9), Target::TimesPeer(2.5)],
        },
        Figure {
            key: "requests_per_object",
            title: "requests per object",
            unit: "",
            digits: 3,
            targets: &[Target::AtMost(1.02)],
        },
        Figure {
            key: "cpu_per_object",
            title: "CPU of the collector per object",
            unit: "ms",
            digits: 3,
            targets: &[Target::AtMost(0.2)],
        },
    ],
    contestants: &Contestant::ALL,
    prepare: nothing,
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            let objects = stage.scale.objects;
            let outcome = cascade::run(stage, contestant, namespace, Mode::Foreground, 1, objects).await?;
            Ok(outcome.measured())
        })
    },
};
