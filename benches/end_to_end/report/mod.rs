//! What is told of the measurements.

pub mod json;
pub mod markdown;

use crate::figure::{Figure, Samples};

/// A row that was measured.
#[derive(Clone, Debug)]
pub struct Result {
    /// What `--rows` calls it.
    pub name: &'static str,
    /// What was done.
    pub about: String,
    /// Its figures.
    pub figures: Vec<(&'static Figure, Samples)>,
}

/// What was measured where.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Circumstances {
    /// When the measurements began.
    pub date: String,
    /// Model and number of the processors.
    pub processors: String,
    /// The system's memory in MiB.
    pub memory_mib: u64,
    /// The greatest part of the processors' time that anybody else took during a turn, of 1.
    pub others: f64,
    /// Who the contestants were to the API server.
    pub contestants: &'static str,
    /// The API server's release.
    pub api_server: String,
    /// The peer's.
    pub peer: Option<String>,
    /// kube-gc's own.
    pub kube_gc: String,
    /// Dependents of one cascade.
    pub objects: usize,
    /// Rounds of each row.
    pub rounds: usize,
    /// Turns of each contestant in a round.
    pub turns: usize,
}
