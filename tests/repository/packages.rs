//! The packages of the crates have what they compile from, and the library needs few others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{ours, read, root};

/// A path without `..`, however the file system gets there.
fn spelled_out(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut so_far, part| {
        match part {
            Component::ParentDir => {
                so_far.pop();
            }
            part => so_far.push(part),
        }
        so_far
    })
}

/// `.ci/run` packs the crates. Only tests/packages.sh compiles what was packed, at night.
#[test]
fn every_file_that_a_crate_compiles_from_is_in_its_package() -> Result<()> {
    let mut count = 0;
    for (name, text) in ours(&[".rs"])? {
        let package = match name.split('/').collect::<Vec<_>>()[..] {
            ["src", ..] => PathBuf::from("src"),
            ["crates", of, "src", ..] => Path::new("crates").join(of),
            _ => continue,
        };
        // Tests run only where the repository is.
        if name.contains("tests") {
            continue;
        }
        let (code, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
        let parent = Path::new(&name).parent().context("no directory")?;
        for included in ["include_str!(\"", "include_bytes!(\""] {
            for rest in code.split(included).skip(1) {
                let (path, _) = rest.split_once('"').context("no end of a path")?;
                ensure!(
                    spelled_out(&parent.join(path)).starts_with(&package),
                    "{name} includes {path}, which is not in the package: link it from {}",
                    package.display()
                );
                count += 1;
            }
        }
    }
    ensure!(count >= 2, "only {count} files are included");
    Ok(())
}

/// Each crate takes time in the first build of the test that docs/testing.md shows.
#[test]
fn the_library_does_without_what_only_the_program_needs() -> Result<()> {
    let documented = std::fs::read_to_string(root().join("docs/testing.md"))?;
    let (_, dependencies) = documented.split_once("# Cargo.toml\n").context("no dependencies")?;
    let (dependencies, _) = dependencies.split_once("```").context("no end")?;
    let dependencies = dependencies.replace("PATH/OF/KUBE-GC", &root().to_string_lossy());
    // An application chooses the version of Kubernetes.
    let dependencies = dependencies.replace("v1_33", "latest");
    let package = tempfile::tempdir()?;
    let manifest = package.path().join("Cargo.toml");
    let head = "[package]\nname = \"shop\"\nedition = \"2024\"\n\n[lib]\npath = \"/dev/null\"\n\n";
    std::fs::write(&manifest, format!("{head}{dependencies}"))?;
    std::fs::copy(root().join("Cargo.lock"), package.path().join("Cargo.lock"))?;
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix", "none", "--format", "{p} {f}", "--manifest-path"])
        .arg(&manifest)
        .output()?;
    ensure!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout)?;
    let mut crates: BTreeSet<Vec<&str>> = BTreeSet::new();
    crates.extend(tree.lines().skip(1).map(|line| line.split(' ').take(2).collect()));
    let has = |name: &str| crates.iter().any(|found| found[0] == name);
    ensure!(has("kube-gc-core") && has("kube-gc-apiserver"), "not the tree of kube-gc: {tree}");
    let kubernetes = tree.lines().find(|line| line.starts_with("k8s-openapi ")).unwrap_or_default();
    ensure!(kubernetes.matches("v1_").count() == 1, "the library chooses a version, too: {kubernetes}");
    for absent in ["axum", "clap_builder", "metrics-exporter-prometheus", "tracing-subscriber", "tungstenite"]
    {
        ensure!(!has(absent), "the library needs {absent}: `cargo tree -i {absent}` says why");
    }
    ensure!(crates.len() <= 180, "{} crates are more than 180: {crates:?}", crates.len());
    Ok(())
}

/// The targets are built only at night. Without such a line, cargo does not build them with `--locked`.
#[test]
fn the_lock_file_of_the_fuzz_targets_has_what_our_crates_require() -> Result<()> {
    let lock: toml::Table = read("fuzz/Cargo.lock")?.parse()?;
    let packages: Vec<toml::Table> = lock.get("package").context("no packages")?.clone().try_into()?;
    let text =
        |table: &toml::Table, key: &str| table.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let mut required = 0;
    for package in packages {
        let name = text(&package, "name").context("no name")?;
        let Some(of) = name.strip_prefix("kube-gc-").filter(|of| *of != "fuzz") else { continue };
        let manifest: toml::Table = read(&format!("crates/{of}/Cargo.toml"))?.parse()?;
        let dependencies: BTreeMap<String, toml::Value> =
            manifest.get("dependencies").context("no dependencies")?.clone().try_into()?;
        let locked: Vec<String> = package.get("dependencies").context("none locked")?.clone().try_into()?;
        for (dependency, how) in dependencies {
            let is_optional = how.get("optional").and_then(toml::Value::as_bool).unwrap_or_default();
            // One has another name here: `webpki` is `rustls-webpki`.
            let is_it =
                |locked: &String| locked.split(' ').next().is_some_and(|name| name.ends_with(&dependency));
            let is_locked = locked.iter().any(is_it);
            ensure!(is_optional || is_locked, "{name} requires {dependency}: run `cargo metadata` in fuzz");
            required += usize::from(!is_optional);
        }
    }
    ensure!(required >= 30, "only {required} dependencies are required");
    Ok(())
}
