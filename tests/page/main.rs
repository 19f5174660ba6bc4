//! The page of the debug listener in a real browser, Debian's Chromium, with a real collector on
//! the embedded server.

mod access;
#[path = "../http/accounts.rs"]
mod accounts;
mod browser;
mod details;
mod gate;
mod hostile;
mod keyboard;
mod live;
mod looks;
mod search;
mod stage;
mod tools;
mod webdriver;

use std::path::{Path, PathBuf};

/// A path in the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
