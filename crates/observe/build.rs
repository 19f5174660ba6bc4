//! Tells the program by which compiler it was built, which is in its metrics. Nothing else is asked
//! for: a clone without git, or without network, builds all the same.

#![allow(clippy::print_stdout, reason = "this is how cargo is told")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output();
    let said = said.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    // "rustc 1.89.0 (29483883e 2025-08-04)"
    let version = said.split_whitespace().nth(1).unwrap_or("unknown");
    println!("cargo::rustc-env=KUBE_GC_RUSTC={version}");
}
