//! Tools from npm: axe-core, and TypeScript, which checks the types of the scripts.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::{repository, skip};

/// The directory of the packages, or nothing if the test is skipped.
pub fn directory(test: &str) -> Result<Option<PathBuf>> {
    let has_npm = Command::new("npm").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !has_npm.is_ok_and(|status| status.success()) {
        return skip(test, "npm is not installed (tests/prerequisites.sh browser)").map(|()| None);
    }
    let output = Command::new(repository("tests/page/ensure.sh")).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "tests/page/ensure.sh failed");
    Ok(Some(String::from_utf8(output.stdout)?.trim_end().into()))
}

#[test]
fn the_types_of_the_scripts_are_right() -> Result<()> {
    let Some(tools) = directory("the types of the scripts are right")? else { return Ok(()) };
    let check = Command::new(tools.join(".bin/tsc"))
        .arg("--project")
        .arg(repository("crates/observe/src/http/ui"))
        .output()?;
    ensure!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    Ok(())
}
