//! Paths of the test binary's environment.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The root of the repository.
pub fn repository() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        package.ancestors().nth(2).expect("the package is in crates/testkit").to_owned()
    })
}

/// The binary of the collector: `KUBE_GC_BINARY`, or the one that cargo builds next to the directory
/// of the test binaries.
pub fn binary() -> PathBuf {
    if let Some(path) = env::var_os("KUBE_GC_BINARY") {
        return path.into();
    }
    let test = env::current_exe().expect("the path of the running binary");
    let profile = test.ancestors().nth(2).expect("test binaries are in <profile>/deps");
    profile.join("kube-gc")
}
