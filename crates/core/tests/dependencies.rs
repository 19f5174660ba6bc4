//! The core stays pure because Cargo gives it nothing to be impure with.

#![allow(clippy::unwrap_used, reason = "a test panics where something is missing")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates that do I/O, spawn tasks or know the API server.
const FORBIDDEN: [&str; 10] = [
    "actix",
    "actix-rt",
    "futures",
    "hyper",
    "k8s-openapi",
    "kube",
    "kube-client",
    "mio",
    "reqwest",
    "tokio",
];

/// All packages that Cargo.lock names below `root`, development dependencies included.
fn dependencies(lock: &str, root: &str) -> BTreeSet<String> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let name = package.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"');
        let list = package.split_once("dependencies = [").and_then(|(_, list)| list.split_once(']'));
        let lines = list.map_or("", |(list, _)| list).lines();
        let names = lines.filter_map(|line| line.trim().trim_matches(['"', ',']).split(' ').next());
        packages.entry(name).or_default().extend(names.filter(|name| !name.is_empty()));
    }
    let mut found = BTreeSet::new();
    let mut open = vec![root];
    while let Some(name) = open.pop() {
        for &dependency in packages.get(name).unwrap() {
            if found.insert(dependency.to_owned()) {
                open.push(dependency);
            }
        }
    }
    found
}

#[test]
fn no_dependency_does_io_or_knows_kubernetes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = std::fs::read_to_string(path).unwrap();
    let of_core = dependencies(&lock, "kube-gc-core");
    assert!(of_core.contains("serde") && of_core.contains("proptest"), "{of_core:?}");
    let forbidden: Vec<&str> = FORBIDDEN.into_iter().filter(|&name| of_core.contains(name)).collect();
    assert!(forbidden.is_empty(), "kube-gc-core depends on {forbidden:?}");
    let of_collector = dependencies(&lock, "kube-gc");
    assert!(
        of_collector.contains("tokio") && of_collector.contains("kube"),
        "the search finds what is there"
    );
}
