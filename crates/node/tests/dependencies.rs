//! The crate stays pure because Cargo gives it nothing to be impure with.

#![allow(clippy::unwrap_used, reason = "a test panics where something is missing")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates that do I/O, spawn tasks, or know the API server or a container runtime.
const FORBIDDEN: [&str; 13] = [
    "actix",
    "actix-rt",
    "futures",
    "hyper",
    "k8s-openapi",
    "kube",
    "kube-client",
    "kube-gc-cri",
    "mio",
    "prost",
    "reqwest",
    "tokio",
    "tonic",
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
    let of_node = dependencies(&lock, "kube-gc-node");
    assert!(of_node.contains("serde_json") && of_node.contains("proptest"), "{of_node:?}");
    let forbidden: Vec<&str> = FORBIDDEN.into_iter().filter(|&name| of_node.contains(name)).collect();
    assert!(forbidden.is_empty(), "kube-gc-node depends on {forbidden:?}");
    let of_collector = dependencies(&lock, "kube-gc");
    assert!(
        of_collector.contains("tokio") && of_collector.contains("kube"),
        "the search finds what is there"
    );
}

/// What a clock, a file or a socket is called in the standard library.
#[test]
fn no_source_reads_a_clock_a_file_or_a_socket() {
    const IMPURE: [&str; 7] =
        ["std::fs", "std::net", "std::env", "std::process", "std::thread", "SystemTime", "Instant"];
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut read = 0;
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let found: Vec<&str> = IMPURE.into_iter().filter(|word| text.contains(word)).collect();
            assert!(found.is_empty(), "{} names {found:?}", path.display());
            read += 1;
        }
    }
    assert!(read > 20, "the sources were found");
}
