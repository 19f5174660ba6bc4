//! The page of the debug listener in a real browser, Debian's Chromium, with a real collector on
//! the embedded server.
//!
//! Where there is no browser or no npm, tests are skipped and say why. With
//! `KUBE_GC_BROWSER=required`, as in continuous integration, that is a failure.

mod access;
#[path = "../http/accounts.rs"]
mod accounts;
mod announcements;
mod browser;
mod gate;
mod hostile;
mod keyboard;
mod latencies;
mod live;
mod looks;
mod search;
mod stage;
mod tools;
mod webdriver;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// A path in the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Says that a test cannot run here. Fails where all tests must run.
fn skip(test: &str, missing: &str) -> Result<()> {
    let is_required = std::env::var_os("KUBE_GC_BROWSER").is_some_and(|value| value == "required");
    ensure!(!is_required, "{test} cannot run, although KUBE_GC_BROWSER=required: {missing}");
    eprintln!("skipped: {test}: {missing}");
    Ok(())
}
