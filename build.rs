//! Tells the program by which compiler it was built, which is in its metrics, and compresses the files
//! of its page. Nothing else is asked for: a clone without git, or without network, builds all the same.

#![allow(clippy::print_stdout, reason = "this is how cargo is told")]

#[path = "src/http/ui/compact.rs"]
mod compact;

use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output();
    let said = said.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    // "rustc 1.89.0 (29483883e 2025-08-04)"
    let version = said.split_whitespace().nth(1).unwrap_or("unknown");
    println!("cargo::rustc-env=KUBE_GC_RUSTC={version}");
    compress_page()
}

/// Writes each file of the page in its compact form, compressed.
fn compress_page() -> io::Result<()> {
    let page = Path::new("src/http/ui");
    println!("cargo::rerun-if-changed={}", page.display());
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    for file in fs::read_dir(page)? {
        let path = file?.path();
        let is_served = |extension: &str| ["css", "html", "js", "svg"].contains(&extension);
        if let (Some(name), Some(extension)) = (path.file_name(), path.extension())
            && extension.to_str().is_some_and(is_served)
        {
            let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
            io::Write::write_all(&mut compressed, &compact::compact(&fs::read(&path)?))?;
            fs::write(Path::new(&out).join(name), compressed.finish()?)?;
        }
    }
    Ok(())
}
