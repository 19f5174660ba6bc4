//! Compares ARCHITECTURE.md with the sources: the table of modules with the directories and the manifests
//! of the crates, and the walk of one event with the names that there are.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};

use crate::{files, read, root};

/// Packages that do I/O or spawn tasks, or know the API server or a container runtime. Crates with
/// rules do without them.
const IMPURE: [&str; 9] =
    ["actix", "futures", "hyper", "k8s-openapi", "kube", "kube-gc-cri", "reqwest", "tokio", "tonic"];
const PURE: [&str; 4] = ["crates/core", "crates/decode", "crates/insight", "crates/node"];

type Names = BTreeSet<String>;

/// The table of modules: what each may use.
fn table() -> Result<BTreeMap<String, Names>> {
    let page = read("ARCHITECTURE.md")?;
    let (_, rest) = page.split_once("| module ").context("no table of modules")?;
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        ensure!(cells.len() == 3, "not three columns: {row}");
        let name = cells[0].trim_matches('`').trim_end_matches('/');
        Ok((name.to_owned(), cells[2].split('`').skip(1).step_by(2).map(str::to_owned).collect()))
    })
    .collect()
}

/// The crates of this repository that a crate's manifest requires.
fn required(path: &str) -> Result<Names> {
    let manifest: toml::Table = read(&format!("{path}/Cargo.toml"))?.parse()?;
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names: Names = dependencies.into_iter().flat_map(toml::Table::keys).cloned().collect();
    if PURE.contains(&path) {
        let impure: Vec<&str> = IMPURE.into_iter().filter(|name| names.contains(*name)).collect();
        ensure!(impure.is_empty(), "{path} depends on {impure:?}");
    }
    Ok(names.iter().filter_map(|name| name.strip_prefix("kube-gc-")).map(str::to_owned).collect())
}

/// Cargo keeps crates from using what their manifest does not name, and from using each other in a circle.
#[test]
fn the_table_has_every_module_and_what_each_crate_uses() -> Result<()> {
    let table = table()?;
    for parent in ["src", "crates"] {
        for entry in std::fs::read_dir(root().join(parent))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let path = format!("{parent}/{}", entry.file_name().to_string_lossy());
                let uses =
                    table.get(&path).with_context(|| format!("ARCHITECTURE.md does not name {path}"))?;
                if parent == "crates" {
                    let required = required(&path)?;
                    ensure!(*uses == required, "ARCHITECTURE.md: {path} uses {required:?}");
                }
            }
        }
    }
    let gone = table.keys().find(|path| !root().join(path).is_dir());
    ensure!(gone.is_none(), "ARCHITECTURE.md: there is no {gone:?}");
    Ok(())
}

/// Fails if the walk of one event names a type or a function that has another name now.
#[test]
fn the_walk_of_an_event_is_short_and_names_what_there_is() -> Result<()> {
    let page = read("ARCHITECTURE.md")?;
    let (_, walk) = page.split_once("## One event").context("no walk")?;
    let (walk, _) = walk.split_once("\n## ").context("no end of the walk")?;
    let hops = walk.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
    ensure!((1..=10).contains(&hops), "{hops} hops");
    let mut defined = Names::new();
    for directory in ["src", "crates"] {
        for path in files(&root().join(directory), ".rs")? {
            let code = std::fs::read_to_string(path)?;
            defined.extend(code.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_owned));
        }
    }
    let names: Vec<&str> = walk.split('`').skip(1).step_by(2).flat_map(|name| name.split("::")).collect();
    ensure!(names.len() > 30, "only {names:?}");
    // An event of a watch is Kubernetes' own word.
    let unknown = names.into_iter().find(|name| !defined.contains(*name) && *name != "DELETED");
    ensure!(unknown.is_none(), "the sources have no {unknown:?}");
    Ok(())
}
