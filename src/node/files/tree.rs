//! Whole directories: how large they are, and removing them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, unlinkat};
use rustix::io::Errno;

use super::directory::{MOST_ENTRIES, child, entry, file_type, names};

/// How deep directories of logs may be. The kubelet's are two deep.
const DEEPEST: usize = 16;

/// The size of what is in a directory, as far as it can be seen.
pub fn size(parent: impl AsFd, name: &str) -> u64 {
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

/// Removes a directory with all that is in it. What is gone already is no error.
pub fn remove_tree(parent: impl AsFd, name: &str) -> io::Result<()> {
    remove_below(parent, name, DEEPEST)
}

fn remove_below(parent: impl AsFd, name: &str, depth: usize) -> io::Result<()> {
    let directory = match child(&parent, name) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    loop {
        let (names, is_whole) = names(&directory, MOST_ENTRIES)?;
        for name in &names {
            match unlinkat(&directory, name.as_str(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) if depth > 0 => remove_below(&directory, name, depth - 1)?,
                Err(Errno::ISDIR) => return Err(io::Error::other("its directories are too deep")),
                Err(error) => return Err(error.into()),
            }
        }
        if is_whole {
            break;
        }
    }
    match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a file or a symlink itself. What is gone already is no error.
pub fn remove_file(directory: impl AsFd, name: &str) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::directory::root;
    use super::*;

    #[test]
    fn directories_that_are_too_deep_stay_with_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let deep = "d/".repeat(DEEPEST + 3);
        fs::create_dir_all(directory.path().join("pod").join(&deep)).unwrap();
        let parent = root(directory.path().to_str().unwrap()).unwrap().unwrap();
        let error = remove_tree(&parent, "pod").unwrap_err().to_string();
        assert!(error.contains("too deep"), "{error}");
        assert_eq!(size(&parent, "none"), 0);
    }

    #[test]
    fn a_sparse_file_counts_what_it_takes() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("pod")).unwrap();
        let file = fs::File::create(directory.path().join("pod/0.log")).unwrap();
        file.set_len(1 << 40).unwrap();
        let parent = root(directory.path().to_str().unwrap()).unwrap().unwrap();
        assert!(size(&parent, "pod") < 1 << 20);
    }
}
