//! The rows.

mod start;

use anyhow::Result;
use futures::future::LocalBoxFuture;
use kube_gc_testkit::{Ns, Policy};

use crate::cascade;
use crate::contestants::Contestant;
use crate::report::Figure;
use crate::stage::Stage;

/// The future of a step of a row.
pub type Step<'a, T> = LocalBoxFuture<'a, Result<T>>;

/// The values of one contestant in one round, by the key of the figure.
pub type Measured = Vec<(&'static str, f64)>;

/// A row.
pub struct Row {
    /// Its name for `--rows`.
    pub name: &'static str,
    /// A description in one line.
    pub about: fn(usize) -> String,
    /// Its figures.
    pub figures: &'static [Figure],
    /// The contestants that can take part.
    pub contestants: &'static [Contestant],
    /// Prepares the control plane, if necessary. As that takes long, such a row has one control
    /// plane for all its turns. Otherwise, each turn has its own.
    pub prepare: Option<fn(&Stage) -> Step<'_, ()>>,
    /// Measures one contestant, which starts and ends here, in an existing namespace of its own.
    pub measure: for<'a> fn(&'a Stage, Contestant, &'a Ns) -> Step<'a, Measured>,
}

/// All rows, in the order of the table.
pub const ALL: &[Row] = &[
    Row {
        name: "background",
        about: |objects| format!("background, 1 owner, {objects} ConfigMaps"),
        figures: &cascade::FIGURES,
        contestants: &Contestant::ALL,
        prepare: None,
        measure: |stage, contestant, ns| {
            Box::pin(cascade::run(stage, contestant, ns, Policy::Background, stage.objects))
        },
    },
    Row {
        name: "foreground",
        about: |objects| format!("foreground, {objects} blocking ConfigMaps"),
        figures: &cascade::FIGURES,
        contestants: &Contestant::ALL,
        prepare: None,
        measure: |stage, contestant, ns| {
            Box::pin(cascade::run(stage, contestant, ns, Policy::Foreground, stage.objects))
        },
    },
    Row {
        name: "orphan",
        about: |objects| format!("orphan, {objects} ConfigMaps"),
        figures: &cascade::FIGURES,
        contestants: &Contestant::ALL,
        prepare: None,
        measure: |stage, contestant, ns| {
            Box::pin(cascade::run(stage, contestant, ns, Policy::Orphan, stage.objects))
        },
    },
    start::EMPTY,
    start::FULL,
    start::SERVER_MEMORY,
];
