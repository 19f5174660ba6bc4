//! An owner is deleted in the foreground, and many dependents block it.

use crate::cascade;
use crate::figure::{Contestant, Target};
use crate::objects::Mode;
use crate::row::Row;

/// The row.
pub const ROW: Row = Row {
    name: "foreground",
    about: |objects| format!("foreground, {objects} blocking ConfigMaps"),
    figures: &cascade::figures(
        &[Target::OfLimit(0.9), Target::TimesPeer(2.5)],
        &[Target::AtMost(1.02)],
        &[Target::AtMost(0.2)],
    ),
    contestants: &Contestant::ALL,
    prepare: None,
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            let objects = stage.scale.objects;
            let outcome = cascade::run(stage, contestant, namespace, Mode::Foreground, 1, objects).await?;
            Ok(outcome.measured())
        })
    },
};
