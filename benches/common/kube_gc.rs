//! kube-gc, as it is released.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// The binary to measure: this one, or else the one that a release build makes.
pub fn program(given: Option<&Path>, progress: impl FnOnce(&str)) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None => {
            progress("building kube-gc as it is released");
            build()
        }
    }
}

/// Builds the release binary. The binary of the benchmark's own build cannot be used, because it
/// contains the deliberate mistakes of the tests.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // cargo sets variables for the programs that it runs. Build scripts of dependencies would
    // notice the change, and everything would be built again each time.
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let output = command
        .args(["build", "--release", "--locked", "--bin", "kube-gc", "--message-format=json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "kube-gc cannot be built");
    match executable(&String::from_utf8(output.stdout)?) {
        Some(path) => Ok(path),
        None => bail!("cargo does not say where kube-gc is"),
    }
}

/// Finds the program in the output of cargo.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ours = messages
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == "kube-gc");
    ours.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// The version that a kube-gc prints.
pub fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let said = String::from_utf8(output.stdout)?;
    Ok(said.trim().trim_start_matches("kube-gc ").to_owned())
}

/// The command, with default settings.
pub fn command(program: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("run").arg("--kubeconfig").arg(kubeconfig);
    command.args(["--log-format", "json"]);
    command.args(["--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0"]);
    command
}

/// Whether a log line says that all objects are known.
pub fn is_synced(line: &str) -> bool {
    let entry = serde_json::from_str::<Value>(line);
    entry.is_ok_and(|entry| entry["message"] == "collecting" && entry["unsynced"].is_null())
}
