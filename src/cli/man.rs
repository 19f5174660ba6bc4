//! `kube-gc man`, which a release uses.

use std::path::{Path, PathBuf};

use clap::{Args, Command};

use super::exit::Exit;
use super::report;
use crate::app::{Error, ErrorKind};

/// The arguments of `kube-gc man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// The directory, which must exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes a page for the program and for each subcommand.
pub fn run(args: &ManArgs, command: Command) -> Exit {
    match write(&args.directory, command) {
        Ok(()) => Exit::Success,
        Err(error) => report(&error),
    }
}

fn write(directory: &Path, command: Command) -> Result<(), Error> {
    clap_mangen::generate_to(command, directory).map_err(|error| {
        let directory = directory.display();
        Error::new(
            ErrorKind::Settings,
            format!("cannot write manual pages to {directory}: {error}; name a directory that exists"),
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn there_is_a_page_for_each_subcommand_that_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), Cli::command()).unwrap();
        for page in ["kube-gc.1", "kube-gc-run.1", "kube-gc-tree.1", "kube-gc-completion.1"] {
            let text = std::fs::read_to_string(directory.path().join(page)).unwrap();
            assert!(text.contains(".SH SYNOPSIS") || text.contains(".SH DESCRIPTION"), "{page}: {text}");
        }
        assert!(!directory.path().join("kube-gc-man.1").exists(), "the hidden subcommand has a page");
        let error = write(&directory.path().join("none"), Cli::command()).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
    }
}
