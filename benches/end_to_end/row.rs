//! A row of the table: what it does, who takes part, and what it measures.

use anyhow::Result;
use futures::future::LocalBoxFuture;

use crate::figure::{Contestant, Figure};
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
    pub measure: for<'a> fn(&'a Stage, Contestant, &'a str) -> Step<'a, Measured>,
}
