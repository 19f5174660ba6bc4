//! The report.

pub mod json;
pub mod markdown;

use crate::figure::{Figure, Samples};

/// The results of a row.
#[derive(Clone, Debug)]
pub struct Result {
    /// Its name for `--rows`.
    pub name: &'static str,
    /// Its description.
    pub about: String,
    /// Its figures.
    pub figures: Vec<(&'static Figure, Samples)>,
}

/// The circumstances of the measurements.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Circumstances {
    /// When the measurements began.
    pub date: String,
    /// Model and number of the processors.
    pub processors: String,
    /// The system's memory in MiB.
    pub memory_mib: u64,
    /// The largest share of the processors that other processes used during a turn, of 1.
    pub others: f64,
    /// The identity of the contestants.
    pub contestants: &'static str,
    /// The API server's release.
    pub api_server: String,
    /// The release of the peer.
    pub peer: Option<String>,
    /// The version of kube-gc.
    pub kube_gc: String,
    /// Dependents of one cascade.
    pub objects: usize,
    /// Rounds of each row.
    pub rounds: usize,
    /// Turns of each contestant in a round.
    pub turns: usize,
}
