//! The logs of pods and the symlinks to them: what there is, and removing it.
//!
//! Everything happens beneath the two directories of the settings, relative to an open directory
//! and without following a symlink (safety 5). Others write there, so a name may be anything and
//! may change between a look and a removal.

mod directory;
mod links;
mod logs;
mod tree;

use std::io;

use kube_gc_node::rules::LogRoots;
use kube_gc_node::view::{LogDirectory, LogSymlink};

pub use logs::Entries;

/// The two directories of logs.
#[derive(Clone, Debug)]
pub struct Logs {
    roots: LogRoots,
    /// In a pod, a symlink to a file that is not mounted seems to lead nowhere.
    in_pod: bool,
}

impl Logs {
    /// These directories, seen from a pod or from the host.
    #[must_use]
    pub const fn new(roots: LogRoots, in_pod: bool) -> Self {
        Self { roots, in_pod }
    }
}

/// A failure, with what it is about.
fn about(path: &str, what: &str, error: &io::Error) -> String {
    format!("cannot {what} {path}: {error}")
}

/// The directory with this name, if it is the only one.
fn only<T>(found: Vec<T>) -> Option<T> {
    let mut found = found.into_iter();
    found.next().filter(|_| found.next().is_none())
}

impl Logs {
    /// One log directory, right before its removal.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn directory(&self, name: &str) -> Result<Option<LogDirectory>, String> {
        Ok(only(logs::directories(&self.roots.pods, Some(name))?.items))
    }

    /// One symlink, right before its removal.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn symlink(&self, name: &str) -> Result<Option<LogSymlink>, String> {
        Ok(only(links::symlinks(&self.roots, self.in_pod, Some(name))?.items))
    }

    /// All log directories.
    ///
    /// # Errors
    /// The directory of logs cannot be read. That it does not exist is none.
    pub fn directories(&self) -> Result<Entries<LogDirectory>, String> {
        logs::directories(&self.roots.pods, None)
    }

    /// All symlinks to logs.
    ///
    /// # Errors
    /// Their directory cannot be read. That it does not exist is none.
    pub fn symlinks(&self) -> Result<Entries<LogSymlink>, String> {
        links::symlinks(&self.roots, self.in_pod, None)
    }
}
