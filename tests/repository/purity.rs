//! The crates that decide and decode stay pure, because Cargo gives them nothing to be impure with.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};

use crate::{files, read, root};

/// The crates, each with two packages that it does need.
const PURE: [(&str, [&str; 2]); 4] = [
    ("kube-gc-core", ["serde", "proptest"]),
    ("kube-gc-decode", ["memchr", "proptest"]),
    ("kube-gc-insight", ["serde", "proptest"]),
    ("kube-gc-node", ["serde_json", "proptest"]),
];

/// Packages that do I/O, spawn tasks, or know the API server or a container runtime.
const FORBIDDEN: [&str; 12] = [
    "actix",
    "actix-rt",
    "futures",
    "hyper",
    "k8s-openapi",
    "kube",
    "kube-client",
    "kube-gc-cri",
    "mio",
    "reqwest",
    "tokio",
    "tonic",
];

/// What a clock, a file or a socket is called in the standard library.
const IMPURE: [&str; 7] =
    ["std::fs", "std::net", "std::env", "std::process", "std::thread", "SystemTime", "Instant"];

/// All packages that Cargo.lock names below `package`, development dependencies included.
fn dependencies(lock: &str, package: &str) -> Result<BTreeSet<String>> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let name = package.lines().find_map(|line| line.strip_prefix("name = ")).context("no name")?;
        let list = package.split_once("dependencies = [").and_then(|(_, list)| list.split_once(']'));
        let lines = list.map_or("", |(list, _)| list).lines();
        let names = lines.filter_map(|line| line.trim().trim_matches(['"', ',']).split(' ').next());
        packages.entry(name.trim_matches('"')).or_default().extend(names.filter(|name| !name.is_empty()));
    }
    let mut found = BTreeSet::new();
    let mut open = vec![package];
    while let Some(name) = open.pop() {
        for &dependency in packages.get(name).with_context(|| format!("no package {name}"))? {
            if found.insert(dependency.to_owned()) {
                open.push(dependency);
            }
        }
    }
    Ok(found)
}

#[test]
fn no_dependency_of_a_pure_crate_does_io_or_knows_kubernetes() -> Result<()> {
    let lock = read("Cargo.lock")?;
    for (package, needed) in PURE {
        let found = dependencies(&lock, package)?;
        ensure!(needed.iter().all(|name| found.contains(*name)), "{package}: {found:?}");
        let forbidden: Vec<&str> = FORBIDDEN.into_iter().filter(|name| found.contains(*name)).collect();
        ensure!(forbidden.is_empty(), "{package} depends on {forbidden:?}");
    }
    let collector = dependencies(&lock, "kube-gc")?;
    ensure!(collector.contains("tokio") && collector.contains("kube"), "the search finds what is there");
    Ok(())
}

#[test]
fn decoders_answers_and_the_rules_of_a_node_read_no_clock_file_or_socket() -> Result<()> {
    for (directory, least) in [("crates/decode/src", 8), ("crates/insight/src", 15), ("crates/node/src", 20)]
    {
        let sources = files(&root().join(directory), ".rs")?;
        ensure!(sources.len() > least, "only {} sources in {directory}", sources.len());
        for path in sources {
            let text = std::fs::read_to_string(&path)?;
            let found: Vec<&str> = IMPURE.into_iter().filter(|word| text.contains(word)).collect();
            ensure!(found.is_empty(), "{} names {found:?}", path.display());
        }
    }
    Ok(())
}
