//! Many owners with a few dependents each, deleted in the background.

use crate::cascade;
use crate::figure::{Contestant, Target};
use crate::objects::Mode;
use crate::row::Row;

/// The number of dependents of each owner.
const DEPENDENTS: usize = 10;

/// The number of owners: 500 at the usual size.
const fn owners(objects: usize) -> usize {
    objects / 8
}

/// The row.
pub const ROW: Row = Row {
    name: "owners",
    about: |objects| format!("{} owners × {DEPENDENTS} dependents", owners(objects)),
    figures: &cascade::figures(&[], &[], &[Target::AtMost(0.25)]),
    contestants: &Contestant::ALL,
    prepare: None,
    measure: |stage, contestant, namespace| {
        Box::pin(async move {
            let owners = owners(stage.scale.objects);
            let outcome =
                cascade::run(stage, contestant, namespace, Mode::Background, owners, DEPENDENTS).await?;
            Ok(outcome.measured())
        })
    },
};
