//! The log directories of pods.

use std::io;
use std::os::fd::AsFd;

use kube_gc_node::Timestamp;
use kube_gc_node::logs::LogFile;
use kube_gc_node::view::LogDirectory;
use rustix::fs::FileType;

use super::directory::{MOST_ENTRIES, child, entry, file_type, names, root};
use super::tree::{remove_file, remove_tree, size};
use super::{Logs, about};

/// What is in one of the two directories.
#[derive(Debug)]
pub struct Entries<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Whether the directory exists, and whether these are all of its entries; otherwise why not.
    pub problem: Option<String>,
}

impl<T> Entries<T> {
    pub(super) fn nothing(path: &str) -> Self {
        Self { items: Vec::new(), problem: Some(format!("there is no directory {path}")) }
    }

    pub(super) fn new(path: &str, items: Vec<T>, is_whole: bool) -> Self {
        let problem = (!is_whole).then(|| format!("{path} has more than {MOST_ENTRIES} entries"));
        Self { items, problem }
    }
}

/// The log directories, or the one with this name.
pub(super) fn directories(path: &str, only: Option<&str>) -> Result<Entries<LogDirectory>, String> {
    read(path, only).map_err(|error| about(path, "read the directory of the pods' logs", &error))
}

fn read(path: &str, only: Option<&str>) -> io::Result<Entries<LogDirectory>> {
    let Some(pods) = root(path)? else { return Ok(Entries::nothing(path)) };
    let (names, is_whole) = match only {
        Some(name) => (vec![name.to_owned()], true),
        None => names(&pods, MOST_ENTRIES)?,
    };
    let mut items = Vec::with_capacity(names.len());
    for name in names {
        // It may have gone meanwhile.
        let Some(stat) = entry(&pods, &name)? else { continue };
        let is_directory = file_type(&stat) == FileType::Directory;
        let bytes = if is_directory && only.is_none() { size(&pods, &name) } else { 0 };
        let modified = Timestamp::from_secs(stat.st_mtime);
        items.push(LogDirectory { name, is_directory, bytes, modified });
    }
    Ok(Entries::new(path, items, is_whole))
}

impl Logs {
    /// Removes the log directory of a pod with all that is in it (L1).
    ///
    /// # Errors
    /// A part of it stays.
    pub fn remove_directory(&self, name: &str) -> Result<(), String> {
        let path = format!("{}/{name}", self.roots.pods);
        let remove = || match root(&self.roots.pods)? {
            Some(pods) => remove_tree(&pods, name),
            None => Ok(()),
        };
        remove().map_err(|error| about(&path, "remove the log directory", &error))
    }

    /// Removes the log of a container with its rotated parts (C8).
    ///
    /// # Errors
    /// A part of it stays.
    pub fn remove_log(&self, log: &LogFile) -> Result<(), String> {
        let path = format!("{}/{}/{}", self.roots.pods, log.directories.join("/"), log.name);
        let remove = || {
            let Some(mut directory) = root(&self.roots.pods)? else { return Ok(()) };
            for name in &log.directories {
                directory = match child(&directory, name) {
                    Ok(child) => child,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    Err(error) => return Err(error),
                };
            }
            remove_log_in(&directory, log)
        };
        remove().map_err(|error| about(&path, "remove the log", &error))
    }
}

fn remove_log_in(directory: impl AsFd, log: &LogFile) -> io::Result<()> {
    let (names, _) = names(&directory, MOST_ENTRIES)?;
    for name in names.iter().filter(|name| log.includes(name)) {
        remove_file(&directory, name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use kube_gc_node::logs::c8_log_file;
    use kube_gc_node::rules::LogRoots;

    use super::*;

    const UID: &str = "0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f10";

    struct Node {
        directory: tempfile::TempDir,
        logs: Logs,
        roots: LogRoots,
    }

    fn node() -> Node {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let roots = LogRoots { pods: at("pods"), containers: at("containers") };
        fs::create_dir(&roots.pods).unwrap();
        fs::create_dir(&roots.containers).unwrap();
        Node { logs: Logs::new(roots.clone(), false), directory, roots }
    }

    impl Node {
        fn pod(&self) -> String {
            format!("{}/default_web_{UID}", self.roots.pods)
        }
    }

    #[test]
    fn directories_are_listed_with_their_sizes_and_a_symlink_is_none() {
        let node = node();
        fs::create_dir_all(format!("{}/web", node.pod())).unwrap();
        fs::write(format!("{}/web/0.log", node.pod()), vec![b'x'; 1000]).unwrap();
        symlink("/etc", format!("{}/link", node.roots.pods)).unwrap();
        let mut seen = node.logs.directories().unwrap().items;
        seen.sort_by(|a, b| a.name.cmp(&b.name));
        let found: Vec<_> = seen.iter().map(|d| (d.name.as_str(), d.is_directory, d.bytes >= 1000)).collect();
        assert_eq!(found, [(&*format!("default_web_{UID}"), true, true), ("link", false, false)]);
        assert!(seen[0].modified.is_known());
        assert!(node.logs.directory("link").unwrap().is_some_and(|d| !d.is_directory));
        assert!(node.logs.directory("../containers").unwrap().is_none());
        assert!(node.logs.directory("none").unwrap().is_none());
    }

    #[test]
    fn a_missing_directory_is_empty_and_said_so() {
        let node = node();
        fs::remove_dir(&node.roots.pods).unwrap();
        let seen = node.logs.directories().unwrap();
        assert!(seen.items.is_empty());
        assert!(seen.problem.unwrap().contains(&node.roots.pods));
        node.logs.remove_directory("x").unwrap();
    }

    #[test]
    fn safety_5_a_symlink_in_a_log_directory_goes_and_what_it_leads_to_stays() {
        let node = node();
        let outside = node.directory.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "").unwrap();
        fs::create_dir_all(format!("{}/web/deep/deeper", node.pod())).unwrap();
        symlink(&outside, format!("{}/web/link", node.pod())).unwrap();
        symlink(outside.join("precious"), format!("{}/web/0.log", node.pod())).unwrap();
        node.logs.remove_directory(&format!("default_web_{UID}")).unwrap();
        assert!(!fs::exists(node.pod()).unwrap());
        assert!(outside.join("precious").exists());
    }

    #[test]
    fn safety_5_a_log_directory_that_is_a_symlink_is_not_followed() {
        let node = node();
        let outside = node.directory.path().join("outside");
        fs::create_dir_all(outside.join("web")).unwrap();
        fs::write(outside.join("web/0.log"), "").unwrap();
        symlink(&outside, node.pod()).unwrap();
        assert!(node.logs.remove_directory(&format!("default_web_{UID}")).is_err());
        let path = format!("{}/web/0.log", node.pod());
        let log = c8_log_file(&path, UID, &node.roots).unwrap();
        assert!(node.logs.remove_log(&log).is_err());
        assert!(outside.join("web/0.log").exists());
    }

    #[test]
    fn safety_5_names_that_lead_out_remove_nothing() {
        let node = node();
        for name in ["..", ".", "", "../containers", "a/b"] {
            assert!(node.logs.remove_directory(name).is_err(), "{name:?}");
        }
        assert!(fs::exists(&node.roots.containers).unwrap());
    }

    #[test]
    fn c8_a_log_goes_with_its_rotated_parts_and_others_stay() {
        let node = node();
        let directory = format!("{}/web", node.pod());
        fs::create_dir_all(&directory).unwrap();
        let all = ["0.log", "0.log.20240102-030405", "0.log.20240102-030405.gz", "0.log2", "1.log", "10.log"];
        for name in all {
            fs::write(format!("{directory}/{name}"), "").unwrap();
        }
        let log = c8_log_file(&format!("{directory}/0.log"), UID, &node.roots).unwrap();
        node.logs.remove_log(&log).unwrap();
        let mut left: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["0.log2", "1.log", "10.log"]);
        node.logs.remove_log(&log).unwrap();
    }
}
