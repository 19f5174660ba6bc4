//! Tools from npm: axe-core, and TypeScript, which checks the types of the scripts.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::repository;

/// The directory of the packages.
pub fn directory() -> Result<PathBuf> {
    let output = Command::new(repository("tests/page/ensure.sh")).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "tests/page/ensure.sh failed");
    Ok(String::from_utf8(output.stdout)?.trim_end().into())
}

#[test]
fn the_types_of_the_scripts_are_right() -> Result<()> {
    let tools = directory()?;
    let check = Command::new(tools.join(".bin/tsc"))
        .arg("--project")
        .arg(repository("crates/observe/src/http/ui"))
        .output()?;
    ensure!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    Ok(())
}
