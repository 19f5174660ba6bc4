//! An owner of many dependents is deleted in the background.

use crate::cascade;
use crate::figure::{Contestant, Target};
use crate::objects::Mode;
use crate::row::Row;

/// The row.
pub const ROW: Row = Row {
    name: "background",
    about: |objects| format!("background, 1 owner, {objects} ConfigMaps"),
    figures: &cascade::figures(
        &[Target::OfLimit(0.95), Target::TimesPeer(1.6)],
        &[Target::AtMost(1.02)],
        &[Target::AtMost(0.2)],
    ),
    contestants: &Contestant::ALL,
    prepare: None,
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            let objects = stage.scale.objects;
            let outcome = cascade::run(stage, contestant, namespace, Mode::Background, 1, objects).await?;
            Ok(outcome.measured())
        })
    },
};
