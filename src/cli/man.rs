//! Keeps the manual pages in docs/man true. A release packs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use super::Cli;

/// The pages of a release, whose program has no demo.
fn write(directory: &Path) {
    let mut command = Cli::command();
    if command.find_subcommand("demo").is_some() {
        command = command.mut_subcommand("demo", |demo| demo.hide(true));
    }
    clap_mangen::generate_to(command, directory).unwrap();
}

fn pages(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into()).collect()
}

/// Writes the pages first if `KUBE_GC_WRITE_DOCS` is set (`make docs-man`).
#[test]
fn the_manual_pages_are_those_of_the_command_line() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/man");
    if std::env::var_os("KUBE_GC_WRITE_DOCS").is_some() {
        if committed.exists() {
            std::fs::remove_dir_all(&committed).unwrap();
        }
        std::fs::create_dir(&committed).unwrap();
        write(&committed);
    }
    let present = tempfile::tempdir().unwrap();
    write(present.path());
    assert_eq!(pages(&committed), pages(present.path()), "run `make docs-man`");
    for page in pages(present.path()) {
        let [committed, present] = [committed.join(&page), present.path().join(&page)]
            .map(|path| std::fs::read_to_string(path).unwrap());
        assert!(committed == present, "docs/man/{} is old; run `make docs-man`", page.display());
    }
}
