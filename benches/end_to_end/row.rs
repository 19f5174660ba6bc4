//! A row of the table: what is done, by whom, and what is measured.

use anyhow::Result;
use futures::future::LocalBoxFuture;

use crate::figure::{Contestant, Figure};
use crate::stage::Stage;

/// What a step of a row becomes.
pub type Step<'a, T> = LocalBoxFuture<'a, Result<T>>;

/// What one contestant measured in one round: by the figure's key.
pub type Measured = Vec<(&'static str, f64)>;

/// A row.
pub struct Row {
    /// What `--rows` calls it.
    pub name: &'static str,
    /// What is done, in a line.
    pub about: fn(usize) -> String,
    /// What is measured.
    pub figures: &'static [Figure],
    /// Who can take part.
    pub contestants: &'static [Contestant],
    /// What there is before anybody is measured, if it has to be made. As that takes long, such
    /// a row has one control plane for all of its turns; of another one, each turn has its own.
    pub prepare: Option<fn(&Stage) -> Step<'_, ()>>,
    /// Measures one contestant, which starts for it and ends with it; in a namespace of its
    /// own, which exists.
    pub measure: for<'a> fn(&'a Stage, Contestant, &'a str) -> Step<'a, Measured>,
}
