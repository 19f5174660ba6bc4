//! An owner of many dependents is deleted, and the dependents stay.

use crate::cascade;
use crate::figure::{Contestant, Target};
use crate::objects::Mode;
use crate::row::Row;

/// The row.
pub const ROW: Row = Row {
    name: "orphan",
    about: |objects| format!("orphan, {objects} ConfigMaps"),
    figures: &cascade::figures(&[Target::OfLimit(0.9), Target::TimesPeer(2.0)], &[Target::AtMost(1.02)], &[]),
    contestants: &Contestant::ALL,
    prepare: None,
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            let objects = stage.scale.objects;
            let outcome = cascade::run(stage, contestant, namespace, Mode::Orphan, 1, objects).await?;
            Ok(outcome.measured())
        })
    },
};
