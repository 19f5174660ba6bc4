//! The symlinks to logs.

use std::io;
use std::os::fd::AsFd;

use kube_gc_node::rules::LogRoots;
use kube_gc_node::view::{LogSymlink, SymlinkState};
use rustix::fs::{AtFlags, CWD, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::directory::{MOST_ENTRIES, entry, file_type, names, root};
use super::logs::Entries;
use super::tree::remove_file;
use super::{Logs, about};

/// The symlinks, or the one with this name.
pub(super) fn symlinks(
    roots: &LogRoots,
    in_pod: bool,
    only: Option<&str>,
) -> Result<Entries<LogSymlink>, String> {
    read(roots, in_pod, only)
        .map_err(|error| about(&roots.containers, "read the directory of the symlinks to logs", &error))
}

fn read(roots: &LogRoots, in_pod: bool, only: Option<&str>) -> io::Result<Entries<LogSymlink>> {
    let path = &roots.containers;
    let Some(containers) = root(path)? else { return Ok(Entries::nothing(path)) };
    let (names, is_whole) = match only {
        Some(name) => (vec![name.to_owned()], true),
        None => names(&containers, MOST_ENTRIES)?,
    };
    let mut items = Vec::with_capacity(names.len());
    for name in names {
        // It may have gone meanwhile.
        let Some(stat) = entry(&containers, &name)? else { continue };
        let mut symlink = LogSymlink { name, state: SymlinkState::NotASymlink, target: String::new() };
        if file_type(&stat) == FileType::Symlink {
            let target = readlinkat(&containers, symlink.name.as_str(), Vec::new());
            symlink.target = target.ok().and_then(|target| target.into_string().ok()).unwrap_or_default();
            symlink.state = state(&containers, &symlink, roots, in_pod);
        }
        items.push(symlink);
    }
    Ok(Entries::new(path, items, is_whole))
}

/// Where a symlink leads. Following it opens nothing.
fn state(containers: impl AsFd, symlink: &LogSymlink, roots: &LogRoots, in_pod: bool) -> SymlinkState {
    match statat(containers, symlink.name.as_str(), AtFlags::empty()) {
        Ok(_) => SymlinkState::Leads,
        Err(Errno::NOENT) if !in_pod || is_missing_itself(symlink, roots) => SymlinkState::Dangling,
        Err(_) => SymlinkState::Unknown,
    }
}

/// Whether the log itself is missing. With cri-dockerd it is a symlink once more, to a file that a
/// pod does not see.
fn is_missing_itself(symlink: &LogSymlink, roots: &LogRoots) -> bool {
    let below = symlink.target.strip_prefix(&roots.pods).is_some_and(|rest| rest.starts_with('/'));
    below && matches!(statat(CWD, symlink.target.as_str(), AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

impl Logs {
    /// Removes a symlink to a log (C8, L2). Anything else of this name stays.
    ///
    /// # Errors
    /// It stays.
    pub fn remove_symlink(&self, name: &str) -> Result<(), String> {
        let path = format!("{}/{name}", self.roots.containers);
        let remove = || {
            let Some(containers) = root(&self.roots.containers)? else { return Ok(()) };
            match entry(&containers, name)? {
                Some(stat) if file_type(&stat) != FileType::Symlink => {
                    Err(io::Error::other("it is not a symlink"))
                }
                Some(_) => remove_file(&containers, name),
                None => Ok(()),
            }
        };
        remove().map_err(|error| about(&path, "remove the symlink", &error))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Node {
        _directory: tempfile::TempDir,
        roots: LogRoots,
    }

    fn node() -> Node {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let roots = LogRoots { pods: at("pods"), containers: at("containers") };
        fs::create_dir(&roots.pods).unwrap();
        fs::create_dir(&roots.containers).unwrap();
        Node { _directory: directory, roots }
    }

    impl Node {
        fn link(&self, name: &str, target: &str) {
            symlink(target, format!("{}/{name}", self.roots.containers)).unwrap();
        }

        fn state(&self, name: &str, in_pod: bool) -> SymlinkState {
            let logs = Logs::new(self.roots.clone(), in_pod);
            logs.symlink(name).unwrap().map_or(SymlinkState::NotASymlink, |symlink| symlink.state)
        }
    }

    #[test]
    fn where_symlinks_lead_is_seen() {
        let node = node();
        let log = format!("{}/0.log", node.roots.pods);
        fs::write(&log, "").unwrap();
        node.link("leads.log", &log);
        node.link("dangling.log", &format!("{}/none/0.log", node.roots.pods));
        node.link("loop.log", "loop.log");
        fs::write(format!("{}/file.log", node.roots.containers), "").unwrap();
        for in_pod in [false, true] {
            assert_eq!(node.state("leads.log", in_pod), SymlinkState::Leads);
            assert_eq!(node.state("dangling.log", in_pod), SymlinkState::Dangling);
            assert_eq!(node.state("loop.log", in_pod), SymlinkState::Unknown);
            assert_eq!(node.state("file.log", in_pod), SymlinkState::NotASymlink);
        }
        let all = Logs::new(node.roots.clone(), false).symlinks().unwrap();
        assert_eq!((all.items.len(), all.problem), (4, None));
    }

    #[test]
    fn in_a_pod_a_log_that_is_kept_outside_of_the_mounts_is_not_taken_for_missing() {
        let node = node();
        let log = format!("{}/0.log", node.roots.pods);
        symlink("/var/lib/docker/containers/not/mounted.log", &log).unwrap();
        node.link("docker.log", &log);
        node.link("elsewhere.log", "/not/mounted/either.log");
        assert_eq!(node.state("docker.log", true), SymlinkState::Unknown);
        assert_eq!(node.state("elsewhere.log", true), SymlinkState::Unknown);
        assert_eq!(node.state("docker.log", false), SymlinkState::Dangling);
    }

    #[test]
    fn safety_5_only_symlinks_go() {
        let node = node();
        let logs = Logs::new(node.roots.clone(), false);
        fs::write(format!("{}/file.log", node.roots.containers), "").unwrap();
        node.link("link.log", "/nowhere");
        assert!(logs.remove_symlink("file.log").unwrap_err().contains("not a symlink"));
        logs.remove_symlink("link.log").unwrap();
        logs.remove_symlink("link.log").unwrap();
        for name in ["..", "", "../pods", "a/b"] {
            let _ = logs.remove_symlink(name);
        }
        assert!(fs::exists(&node.roots.pods).unwrap());
        assert!(fs::exists(format!("{}/file.log", node.roots.containers)).unwrap());
    }
}
