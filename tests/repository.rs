//! Checks of the repository outside of its code: documents and manifests say what the code does,
//! and links lead somewhere. tests/monitoring checks dashboards and alerts.

#[path = "repository/architecture.rs"]
mod architecture;

#[path = "repository/guarantees.rs"]
mod guarantees;

#[path = "repository/inventory.rs"]
mod inventory;

#[path = "repository/links.rs"]
mod links;

#[path = "repository/packages.rs"]
mod packages;

#[path = "repository/release.rs"]
mod release;

#[path = "repository/rules.rs"]
mod rules;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use kube_gc::settings::NodeSettings;
use kube_gc_config::Loader;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// Every file below a directory whose name ends like this.
fn files(directory: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, ending)?);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Directories that contain nothing of this repository, or nothing to read.
const FOREIGN: [&str; 4] = ["target", ".git", "found", "corpus"];

/// Every file of the repository with one of these endings: its path from the root, and its text.
fn ours(endings: &[&str]) -> Result<Vec<(String, String)>> {
    let (mut found, mut directories) = (Vec::new(), vec![root()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if FOREIGN.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
            } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
                let name = path.strip_prefix(root())?.to_string_lossy().into_owned();
                let text = std::fs::read_to_string(&path).with_context(|| name.clone())?;
                found.push((name, text));
            }
        }
    }
    Ok(found)
}

/// The demo contains an API server.
#[test]
fn the_image_does_not_contain_the_demo() -> Result<()> {
    let tree = std::process::Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["tree", "--offline", "--locked", "-p", "kube-gc", "--no-default-features"])
        .args(["--features", "jemalloc,node", "-e", "normal", "--prefix", "none", "--format", "{lib}"])
        .output()?;
    ensure!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout)?;
    let crates: BTreeSet<&str> = tree.split_whitespace().collect();
    ensure!(crates.contains("kube_gc_core"), "not the tree of kube-gc: {tree}");
    for absent in ["kube_gc_apiserver", "rcgen", "json_patch", "indicatif"] {
        ensure!(!crates.contains(absent), "{absent} is in the image");
    }
    Ok(())
}

#[test]
fn the_configuration_in_the_manifests_is_valid_and_the_only_one() -> Result<()> {
    let own = ["deploy/base/config.toml", "deploy/node/config.toml"].map(|path| root().join(path));
    // A whole file replaces another: one in a component would replace that of an operator.
    let mut configs = files(&root().join("deploy"), "config.toml")?;
    configs.sort_unstable();
    ensure!(configs == own, "{configs:?}");
    for config in configs {
        let settings = Loader::new().file(Some(&config)).load()?;
        ensure!(!settings.http.listen.ip().is_loopback(), "the kubelet could not reach the probes");
        ensure!(settings.http.debug_listen.ip().is_loopback(), "the debug pages are open to the network");
        ensure!(settings.warnings().is_empty(), "{:?}", settings.warnings());
        ensure!(settings.node == NodeSettings::default(), "nodes are collected before anybody says so");
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn scripts_are_executable_and_stop_at_the_first_error() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mut scripts = files(&root().join("tests"), ".sh")?;
    scripts.extend(
        [
            ".ci/run",
            "deploy/archive",
            "deploy/build-image",
            "deploy/build-static",
            "deploy/check-release",
            "deploy/install-envtest",
            "deploy/release",
            "deploy/release-notes",
            "deploy/release-page",
            "benches/small.sh",
        ]
        .map(|script| root().join(script)),
    );
    for script in scripts {
        let text = std::fs::read_to_string(&script)?;
        ensure!(text.starts_with("#!/usr/bin/env bash\n"), "{}: no bash", script.display());
        ensure!(text.contains("\nset -euo pipefail\n"), "{}: goes on after errors", script.display());
        let mode = std::fs::metadata(&script)?.permissions().mode();
        ensure!(mode & 0o111 == 0o111, "{}: not executable", script.display());
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn no_image_is_built_from_a_dynamically_linked_binary() -> Result<()> {
    // This test is such a binary.
    let answer = std::process::Command::new(root().join("deploy/build-image"))
        .arg("kube-gc:test")
        .env("KUBE_GC_BINARY", std::env::current_exe()?)
        .output()?;
    let says = String::from_utf8_lossy(&answer.stderr);
    ensure!(!answer.status.success() && says.contains("is not static"), "{answer:?}");
    Ok(())
}
