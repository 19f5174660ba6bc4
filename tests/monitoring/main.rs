//! What an operator sees of kube-gc: that the dashboard and the rules are sound in
//! themselves, and that a real Prometheus that scrapes real collectors has data for
//! each of their queries and fires each alert on the fault that it is for.

mod dashboard;
mod faults;
mod live;
mod picture;
mod prometheus;
mod replica;
mod rules;
mod shorten;
mod structure;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// A place in the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of a file of the repository.
fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(repository(path)).with_context(|| path.to_owned())
}
