//! Keeps the manual pages in docs/man true. A release packs them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap::CommandFactory as _;

use super::Cli;

/// The pages of a release, whose program has no demo.
fn write(directory: &Path) -> io::Result<()> {
    let mut command = Cli::command();
    if command.find_subcommand("demo").is_some() {
        command = command.mut_subcommand("demo", |demo| demo.hide(true));
    }
    clap_mangen::generate_to(command, directory)
}

fn pages(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// Writes the pages first if `KUBE_GC_WRITE_DOCS` is set (`make docs-man`).
#[test]
fn the_manual_pages_are_those_of_the_command_line() -> io::Result<()> {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/man");
    if std::env::var_os("KUBE_GC_WRITE_DOCS").is_some() {
        if committed.exists() {
            std::fs::remove_dir_all(&committed)?;
        }
        std::fs::create_dir(&committed)?;
        write(&committed)?;
    }
    let present = tempfile::tempdir()?;
    write(present.path())?;
    let names = pages(present.path())?;
    assert_eq!(pages(&committed)?, names, "run `make docs-man`");
    for name in names {
        let is_same = std::fs::read(committed.join(&name))? == std::fs::read(present.path().join(&name))?;
        assert!(is_same, "docs/man/{} is old; run `make docs-man`", name.display());
    }
    Ok(())
}
