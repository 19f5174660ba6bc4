//! The packages of the crates have what they compile from, and the library needs few others.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{ours, root};

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

/// `.ci/run` packs the crates and does not compile what it has packed.
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

/// Each crate takes time in the first build of a test that uses the library.
#[test]
fn the_library_does_without_what_only_the_program_needs() -> Result<()> {
    let tree = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["tree", "--offline", "--locked", "-p", "kube-gc", "--no-default-features"])
        .args(["-e", "normal", "--prefix", "none", "--format", "{lib}"])
        .output()?;
    ensure!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout)?;
    let crates: Vec<&str> = tree.split_whitespace().collect();
    ensure!(crates.contains(&"kube_gc_core"), "not the tree of kube-gc: {tree}");
    for absent in ["axum", "clap_builder", "metrics_exporter_prometheus", "tracing_subscriber", "tungstenite"]
    {
        ensure!(!crates.contains(&absent), "the library needs {absent}: `cargo tree -i {absent}` says why");
    }
    Ok(())
}
