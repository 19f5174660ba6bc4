//! Monitoring of kube-gc: the dashboard and the rules are consistent, each alert fires when it should by
//! Prometheus' own tool, and a real Prometheus that scrapes a real collector has data for the panels.

mod dashboard;
mod live;
mod nodes;
mod prometheus;
mod rules;
mod structure;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// A path in the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of a file of the repository.
fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(repository(path)).with_context(|| path.to_owned())
}
