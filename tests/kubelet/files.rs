//! Log directories and symlinks to logs, on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use kube_gc_node::testing::Random;

use super::pods::Pod;

/// Where the kubelet keeps logs, below its root.
const PODS: &str = "var/log/pods";
/// Where it keeps symlinks to them.
const CONTAINERS: &str = "var/log/containers";

/// The logs of a pod.
pub struct Logs {
    pub pod: Pod,
    /// By id: the name of the container, and its attempt.
    pub containers: BTreeMap<String, (String, u32)>,
}

impl Logs {
    /// The name of the directory.
    fn directory(&self) -> String {
        let Pod { namespace, name, uid, .. } = &self.pod;
        format!("{namespace}_{name}_{uid}")
    }

    /// The path of a container's log, below the root.
    pub fn path_of(&self, container: &str, attempt: u32) -> String {
        format!("{PODS}/{}/{container}/{attempt}.log", self.directory())
    }
}

/// Files below a root.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    /// Files and what symlinks lead to, by paths below the root.
    entries: BTreeMap<PathBuf, Option<PathBuf>>,
}

impl Files {
    /// The logs of these pods, with symlinks to them and elsewhere.
    pub fn random(random: &mut Random, root: &str, logs: &[Logs]) -> Self {
        let mut files = Self { root: root.into(), entries: BTreeMap::new() };
        for logs in logs {
            // The directory itself, whatever is in it.
            files.file(format!("{PODS}/{}/.kept", logs.directory()));
            for (id, (name, attempt)) in &logs.containers {
                files.container(random, logs, id, name, *attempt);
            }
        }
        for (name, leads) in [
            ("odd.log", false),
            ("pod_default_app-0123456789abcdef.log", false),
            ("pod_default_app-short.log", false),
            ("pod_default_app-fedcba9876543210.log", true),
            ("not-a-log.txt", false),
        ] {
            if random.percent(30) {
                let target = if leads { "other/log" } else { "nowhere" };
                files.file("other/log".to_owned());
                files.link(name, Path::new(target));
            }
        }
        files
    }

    fn container(&mut self, random: &mut Random, logs: &Logs, id: &str, name: &str, attempt: u32) {
        let log = logs.path_of(name, attempt);
        if random.percent(85) {
            self.file(log.clone());
        }
        for rotated in ["20200102-030405", "20200102-040506.gz"] {
            if random.percent(25) {
                self.file(format!("{log}.{rotated}"));
            }
        }
        if random.percent(80) {
            let Pod { namespace, name: pod, .. } = &logs.pod;
            self.link(&format!("{pod}_{namespace}_{name}-{id}.log"), Path::new(&log));
        }
    }

    fn file(&mut self, path: String) {
        self.entries.insert(path.into(), None);
    }

    fn link(&mut self, name: &str, target: &Path) {
        self.entries.insert(Path::new(CONTAINERS).join(name), Some(self.root.join(target)));
    }

    /// Makes exactly these files, whatever was there.
    pub fn plant(&self) -> io::Result<()> {
        for directory in ["var", "other"] {
            match std::fs::remove_dir_all(self.root.join(directory)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        for directory in [PODS, CONTAINERS] {
            std::fs::create_dir_all(self.root.join(directory))?;
        }
        for (path, target) in &self.entries {
            let path = self.root.join(path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            match target {
                Some(target) => symlink(target, path)?,
                None => std::fs::write(path, "a line\n")?,
            }
        }
        Ok(())
    }

    /// How many paths there are at first, directories included.
    pub fn count(&self) -> usize {
        let above = self.entries.keys().flat_map(|path| path.ancestors().skip(1));
        // `var` and `other` themselves are not counted.
        let directories: BTreeSet<&Path> = above.filter(|path| path.components().count() > 1).collect();
        self.entries.len() + directories.len()
    }

    /// What is there now: every path below the root.
    pub fn left(&self) -> io::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let mut directories = vec![self.root.join("var"), self.root.join("other")];
        while let Some(directory) = directories.pop() {
            let entries = match std::fs::read_dir(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    directories.push(entry.path());
                }
                let path = entry.path();
                found.insert(path.strip_prefix(&self.root).unwrap_or(&path).display().to_string());
            }
        }
        Ok(found)
    }
}
