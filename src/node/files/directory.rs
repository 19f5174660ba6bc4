//! Directories that are held open, and what is in them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use kube_gc_node::logs::is_entry;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, open, openat, openat2, statat};
use rustix::io::Errno;

/// The most entries of a directory that are looked at. No node has nearly so many.
pub const MOST_ENTRIES: usize = 100_000;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens one of the two directories of the settings; nothing if it does not exist. Its own path may
/// lead through symlinks, which only the administrator can make.
pub fn root(path: &str) -> io::Result<Option<OwnedFd>> {
    match open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(root) => Ok(Some(root)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory in a directory: neither through a symlink nor into another mount.
pub fn child(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
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
pub fn entry(directory: impl AsFd, name: &str) -> io::Result<Option<Stat>> {
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
pub fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The names in a directory, and whether these are all. Names that are not UTF-8 are none of a log.
pub fn names(directory: impl AsFd, most: usize) -> io::Result<(Vec<String>, bool)> {
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
