//! The logs of pods and the symlinks to them: what there is, and removing it.
//!
//! Everything happens beneath the two directories of the settings, relative to an open directory
//! and without following a symlink (safety 5). Others write there, so a name may be anything and
//! may change between a look and a removal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use kube_gc_node::Timestamp;
use kube_gc_node::logs::{LogFile, is_entry};
use kube_gc_node::rules::LogRoots;
use kube_gc_node::view::{LogDirectory, LogSymlink, SymlinkState};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, open, openat, openat2, readlinkat, statat,
    unlinkat,
};
use rustix::io::Errno;

/// The most entries of a directory that are looked at. No node has nearly so many.
const MOST_ENTRIES: usize = 100_000;
/// How deep directories of logs may be. The kubelet's are two deep.
const DEEPEST: usize = 16;
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The two directories of logs.
#[derive(Clone, Debug)]
pub struct Logs {
    roots: LogRoots,
    /// In a pod, a symlink to a file that is not mounted seems to lead nowhere.
    in_pod: bool,
}

/// What is in one of the two directories.
#[derive(Debug)]
pub struct Entries<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Whether the directory exists, and whether these are all of its entries; otherwise why not.
    pub problem: Option<String>,
}

impl Logs {
    /// These directories, seen from a pod or from the host.
    pub const fn new(roots: LogRoots, in_pod: bool) -> Self {
        Self { roots, in_pod }
    }

    /// All log directories; or the one with this name, without its size, right before its removal.
    pub fn directories(&self, only: Option<&str>) -> Result<Entries<LogDirectory>, String> {
        read(&self.roots.pods, "read the directory of the pods' logs", only, |pods, name, stat| {
            let is_directory = file_type(stat) == FileType::Directory;
            let bytes = if is_directory && only.is_none() { size(pods, &name) } else { 0 };
            LogDirectory { name, is_directory, bytes, modified: Timestamp::from_secs(stat.st_mtime) }
        })
    }

    /// All symlinks to logs; or the one with this name, right before its removal.
    pub fn symlinks(&self, only: Option<&str>) -> Result<Entries<LogSymlink>, String> {
        let look = |directory: &_, name, stat: &_| self.look(directory, name, stat);
        read(&self.roots.containers, "read the directory of the symlinks to logs", only, look)
    }

    /// Looks at what may be a symlink to a log. Following it opens nothing.
    fn look(&self, containers: &OwnedFd, name: String, stat: &Stat) -> LogSymlink {
        let mut symlink = LogSymlink { name, state: SymlinkState::NotASymlink, target: String::new() };
        if file_type(stat) == FileType::Symlink {
            let target = readlinkat(containers, symlink.name.as_str(), Vec::new());
            symlink.target = target.ok().and_then(|target| target.into_string().ok()).unwrap_or_default();
            symlink.state = match statat(containers, symlink.name.as_str(), AtFlags::empty()) {
                Ok(_) => SymlinkState::Leads,
                Err(Errno::NOENT) if !self.in_pod || self.is_missing_itself(&symlink) => {
                    SymlinkState::Dangling
                }
                Err(_) => SymlinkState::Unknown,
            };
        }
        symlink
    }

    /// Whether the log itself is missing. With cri-dockerd it is a symlink once more, to a file that a
    /// pod does not see.
    fn is_missing_itself(&self, symlink: &LogSymlink) -> bool {
        let below = symlink.target.strip_prefix(&self.roots.pods).is_some_and(|rest| rest.starts_with('/'));
        let found = || statat(CWD, symlink.target.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        below && matches!(found(), Err(Errno::NOENT))
    }

    /// Removes the log directory of a pod with all that is in it (L1).
    pub fn remove_directory(&self, name: &str) -> Result<(), String> {
        let path = format!("{}/{name}", self.roots.pods);
        let remove = || match root(&self.roots.pods)? {
            Some(pods) => remove_tree(&pods, name, DEEPEST),
            None => Ok(()),
        };
        remove().map_err(|error| about(&path, "remove the log directory", &error))
    }

    /// Removes the log of a container with its rotated parts (C8).
    pub fn remove_log(&self, log: &LogFile) -> Result<(), String> {
        let path = format!("{}/{}/{}", self.roots.pods, log.directories.join("/"), log.name);
        let remove_parts = || {
            let Some(mut directory) = root(&self.roots.pods)? else { return Ok(()) };
            for name in &log.directories {
                let Some(child) = unless_gone(child(&directory, name))? else { return Ok(()) };
                directory = child;
            }
            let (names, _) = names(&directory, MOST_ENTRIES)?;
            let mut names = names.iter().filter(|name| log.includes(name));
            names.try_for_each(|name| remove(&directory, name, AtFlags::empty()))
        };
        remove_parts().map_err(|error| about(&path, "remove the log", &error))
    }

    /// Removes a symlink to a log (C8, L2). Anything else of this name stays.
    pub fn remove_symlink(&self, name: &str) -> Result<(), String> {
        let path = format!("{}/{name}", self.roots.containers);
        let remove_it = || {
            let Some(containers) = root(&self.roots.containers)? else { return Ok(()) };
            match entry(&containers, name)? {
                Some(stat) if file_type(&stat) != FileType::Symlink => {
                    Err(io::Error::other("it is not a symlink"))
                }
                Some(_) => remove(&containers, name, AtFlags::empty()),
                None => Ok(()),
            }
        };
        remove_it().map_err(|error| about(&path, "remove the symlink", &error))
    }
}

/// A failure, with what it is about.
fn about(path: &str, what: &str, error: &io::Error) -> String {
    format!("cannot {what} {path}: {error}")
}

/// The entries of a directory, or the one with this name, as `look` sees each. That the directory does not
/// exist is no error.
fn read<T>(
    path: &str,
    what: &str,
    only: Option<&str>,
    look: impl Fn(&OwnedFd, String, &Stat) -> T,
) -> Result<Entries<T>, String> {
    let read = || {
        let Some(directory) = root(path)? else {
            return Ok(Entries { items: Vec::new(), problem: Some(format!("there is no directory {path}")) });
        };
        let (names, is_whole) = match only {
            Some(name) => (vec![name.to_owned()], true),
            None => names(&directory, MOST_ENTRIES)?,
        };
        let mut items = Vec::with_capacity(names.len());
        for name in names {
            // It may have gone meanwhile.
            if let Some(stat) = entry(&directory, &name)? {
                items.push(look(&directory, name, &stat));
            }
        }
        let problem = (!is_whole).then(|| format!("{path} has more than {MOST_ENTRIES} entries"));
        Ok(Entries { items, problem })
    };
    read().map_err(|error| about(path, what, &error))
}

/// Opens one of the two directories of the settings; nothing if it does not exist. Its own path may
/// lead through symlinks, which only the administrator can make.
fn root(path: &str) -> io::Result<Option<OwnedFd>> {
    let root = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    unless_gone(root.map_err(io::Error::from))
}

/// Opens a directory in a directory: neither through a symlink nor into another mount.
fn child(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    if !is_entry(name) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(&parent, name, DIRECTORY, Mode::empty(), resolve) {
        Ok(child) => return Ok(child),
        // Linux before 5.6, or a filter of system calls that does not know this one.
        Err(Errno::NOSYS | Errno::PERM) => {}
        Err(Errno::XDEV) => return Err(io::Error::other("something is mounted there")),
        Err(error) => return Err(error.into()),
    }
    let child = openat(&parent, name, DIRECTORY, Mode::empty())?;
    if rustix::fs::fstat(&child)?.st_dev != rustix::fs::fstat(&parent)?.st_dev {
        return Err(io::Error::other("something is mounted there"));
    }
    Ok(child)
}

/// What is known of an entry without following it; nothing if there is none.
fn entry(directory: impl AsFd, name: &str) -> io::Result<Option<Stat>> {
    if !is_entry(name) {
        return Ok(None);
    }
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The type of an entry.
fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The names in a directory, and whether these are all. Names that are not UTF-8 are none of a log.
fn names(directory: impl AsFd, most: usize) -> io::Result<(Vec<String>, bool)> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let Ok(name) = entry?.file_name().to_str().map(str::to_owned) else { continue };
        if !is_entry(&name) {
            continue;
        }
        if names.len() == most {
            return Ok((names, false));
        }
        names.push(name);
    }
    Ok((names, true))
}

/// The size of what is in a directory, as far as it can be seen.
fn size(parent: impl AsFd, name: &str) -> u64 {
    let mut left = MOST_ENTRIES;
    child(parent, name).map(|directory| size_of(&directory, DEEPEST, &mut left)).unwrap_or_default()
}

fn size_of(directory: &OwnedFd, depth: usize, left: &mut usize) -> u64 {
    let Ok((names, _)) = names(directory, *left) else { return 0 };
    *left -= names.len().min(*left);
    let mut bytes: u64 = 0;
    for name in names {
        let Ok(Some(stat)) = entry(directory, &name) else { continue };
        // In blocks of 512 bytes, whatever the file system's own are.
        let own = u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512);
        bytes = bytes.saturating_add(own);
        if file_type(&stat) == FileType::Directory && depth > 0 && *left > 0 {
            let below = child(directory, &name).map(|child| size_of(&child, depth - 1, left));
            bytes = bytes.saturating_add(below.unwrap_or_default());
        }
    }
    bytes
}

/// Removes a directory with all that is in it, at most so deep. What is gone already is no error.
fn remove_tree(parent: impl AsFd, name: &str, depth: usize) -> io::Result<()> {
    let Some(directory) = unless_gone(child(&parent, name))? else { return Ok(()) };
    loop {
        let (names, is_whole) = names(&directory, MOST_ENTRIES)?;
        for name in &names {
            match unlinkat(&directory, name.as_str(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) if depth > 0 => remove_tree(&directory, name, depth - 1)?,
                Err(Errno::ISDIR) => return Err(io::Error::other("its directories are too deep")),
                Err(error) => return Err(error.into()),
            }
        }
        if is_whole {
            break;
        }
    }
    remove(&parent, name, AtFlags::REMOVEDIR)
}

/// Removes a file, a symlink itself or an empty directory. What is gone already is no error.
fn remove(directory: impl AsFd, name: &str, flags: AtFlags) -> io::Result<()> {
    unless_gone(unlinkat(directory, name, flags).map_err(io::Error::from)).map(drop)
}

/// What there is, or nothing if it is gone already.
fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
