//! Monitoring of kube-gc: the dashboard and the rules are consistent, and a real Prometheus that
//! scrapes real collectors has data for each query and fires each alert on its fault.

mod dashboard;
mod faults;
mod live;
mod nodes;
mod prometheus;
mod replica;
mod rules;
mod shorten;
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
