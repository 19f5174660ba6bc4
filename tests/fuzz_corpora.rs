//! The fuzz targets with their corpora, and with mutations of these from a fixed seed: the part
//! of fuzzing that a stable toolchain can do in seconds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use kube_gc_decode::fuzzing;

/// A target: takes any bytes, panics when they show a fault.
type Target = fn(&[u8]);

/// All targets by name; each has its corpus in `fuzz/corpus/`.
const TARGETS: [(&str, Target); 7] = [
    ("object", fuzzing::object),
    ("list", fuzzing::list),
    ("list_protobuf", fuzzing::list_protobuf),
    ("watch", fuzzing::watch),
    ("watch_protobuf", fuzzing::watch_protobuf),
    ("discovery", kube_gc_client::fuzzing::discovery),
    ("config", kube_gc_config::testing::config),
];

/// The number of mutations for a target: loading a configuration takes a hundred times as long as
/// decoding an object.
fn mutations(target: &str) -> u32 {
    if target == "config" { 100 } else { 5000 }
}

fn corpus(target: &str) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let bytes = std::fs::read(&path)?;
        files.push((path, bytes));
    }
    files.sort();
    ensure!(!files.is_empty(), "{target} has no corpus");
    Ok(files)
}

/// Runs a target. A panic is a failure that names the bytes.
fn holds(name: &str, target: Target, bytes: &[u8], from: &Path) -> Result<()> {
    if catch_unwind(AssertUnwindSafe(|| target(bytes))).is_err() {
        bail!("{name} fails on what began as {}: {}", from.display(), bytes.escape_ascii());
    }
    Ok(())
}

/// Pieces of JSON and TOML.
const PIECES: &str = r#"{ } [ ] , : " \ null true 0 -1 1e9 = . "uid":"u" "items":[] "kind":" List \u0041 "metadata":{ 18446744073709551616 é"#;

/// Changes a file a little: cuts, repeats, overwrites, inserts, or splices in a part of another
/// file.
fn mutate(random: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..=bytes.len());
        let end = (at + random.usize(1..13)).min(bytes.len());
        match random.u8(..6) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.extend_from_within(at..end),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            2..=4 => {
                let piece = random.choice(PIECES.split(' ').collect::<Vec<_>>()).unwrap_or_default();
                bytes.splice(at..at, piece.bytes());
            }
            _ => {
                let from = random.usize(..=other.len());
                let to = (from + random.usize(..60)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
}

#[test]
fn every_file_of_every_corpus_holds() -> Result<()> {
    for (name, target) in TARGETS {
        for (path, bytes) in corpus(name)? {
            holds(name, target, &bytes, &path)?;
        }
    }
    Ok(())
}

#[test]
fn mutations_of_the_corpora_hold() -> Result<()> {
    for (name, target) in TARGETS {
        let files = corpus(name)?;
        let mut random = Rng::with_seed(0x6b75_6265_2d67_6300);
        for _ in 0..mutations(name) {
            let (path, bytes) = &files[random.usize(..files.len())];
            let mut bytes = bytes.clone();
            let (_, other) = &files[random.usize(..files.len())];
            mutate(&mut random, &mut bytes, other);
            holds(name, target, &bytes, path)?;
        }
    }
    Ok(())
}

/// A target that is not built, or a corpus that does not run, would remain unnoticed.
#[test]
fn every_fuzz_target_has_a_corpus_and_a_line_in_the_manifest() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let built: Vec<&str> = manifest["bin"]
        .as_array()
        .context("no targets")?
        .iter()
        .filter_map(|bin| bin["name"].as_str())
        .collect();
    ensure!(built == TARGETS.map(|(name, _)| name), "{built:?}");
    let corpora = std::fs::read_dir(root.join("corpus"))?.count();
    ensure!(corpora == TARGETS.len(), "{corpora} corpora");
    Ok(())
}
