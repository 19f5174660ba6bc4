//! The state file: when each image was first seen and last used (B4).

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kube_gc_node::Ledger;
use kube_gc_node::ledger::LONGEST;
use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Where systemd says that a service may keep what need not survive a reboot.
const RUNTIME_DIRECTORY: &str = "RUNTIME_DIRECTORY";
/// Where that is without systemd. The DaemonSet has it in memory.
const IN_MEMORY: &str = "/run/kube-gc";

/// Where the ages of images are kept.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    /// Where they are kept, in memory, while there is no room at the path: the disk that has to be cleaned up
    /// may be the same.
    volatile: PathBuf,
    /// What this process has written.
    written: Option<Vec<u8>>,
    /// What was wrong the last time, and has been said.
    problem: Option<String>,
}

impl StateFile {
    /// The state file at this path.
    pub fn new(path: PathBuf) -> Self {
        let directory = std::env::var(RUNTIME_DIRECTORY).ok();
        let directory = directory.as_deref().and_then(|list| list.split(':').next());
        // Each state file has its own.
        let name = path.to_string_lossy().trim_start_matches('/').replace('/', "-");
        let volatile = Path::new(directory.unwrap_or(IN_MEMORY)).join(name);
        Self { path, volatile, written: None, problem: None }
    }

    /// What the file has; an empty ledger if there is no file.
    ///
    /// # Errors
    /// It cannot be read, or what it has cannot be used. The caller warns and begins anew.
    pub fn read(&self) -> Result<Ledger, String> {
        for path in [&self.volatile, &self.path] {
            let ledger = match read(path) {
                Ok(content) => Ledger::parse(&content).map_err(|error| error.to_string()),
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => Err(error.to_string()),
            };
            let path = path.display();
            return ledger.map_err(|why| {
                format!("cannot use the state file {path}: {why}; all images count as first seen now")
            });
        }
        Ok(Ledger::default())
    }

    /// Replaces the file in one step, unless it has the same already: a crash leaves either the old or the new
    /// content. That it cannot be written is logged: the ages are then lost with this process.
    pub fn write(&mut self, ledger: &Ledger) {
        let content = ledger.to_json().map_err(io::Error::from);
        if content.as_ref().ok() == self.written.as_ref() && self.written.is_some() {
            return;
        }
        let problem = match content.and_then(|content| Ok((self.replace(&content)?, content))) {
            Ok((problem, content)) => {
                self.written = Some(content);
                problem
            }
            Err(error) => Some(format!(
                "cannot write the state file {}: {error}; the ages of images are forgotten when this process ends",
                self.path.display()
            )),
        };
        // It is written before each image goes.
        if let Some(problem) = &problem
            && self.problem.as_ref() != Some(problem)
        {
            tracing::warn!("{problem}");
        }
        self.problem = problem;
    }

    /// Also returns what people should know.
    fn replace(&self, content: &[u8]) -> io::Result<Option<String>> {
        match replace(&self.path, content) {
            Ok(()) => match fs::remove_file(&self.volatile) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(None),
            },
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                replace(&self.volatile, content).map_err(|_| error)?;
                Ok(Some(format!(
                    "there is no room for the state file {}, so it is kept at {} until there is",
                    self.path.display(),
                    self.volatile.display()
                )))
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads a regular file that is not too long and that nobody else can write. Neither a symlink nor a pipe is
/// opened.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.mode() & 0o002 != 0 || metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user, or every user may write it"));
    }
    let mut content = Vec::new();
    // One byte more, so that a file that is too long is noticed.
    let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.ok_or_else(|| io::Error::other("its path has no directory"))?;
    if !directory.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // What a killed process has left.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written =
        file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        // A part of it would take what little room is left.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    // So that the new name survives a loss of power, too.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::Duration;

    use kube_gc_node::ledger::Age;

    use super::*;

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.set("a", Age { detected: Duration::from_secs(7), used: None });
        ledger
    }

    #[test]
    fn what_was_written_is_read_again_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = StateFile::new(directory.path().join("sub/state.json"));
        assert!(state.read().unwrap().is_empty());
        state.write(&ledger());
        assert_eq!(state.read().unwrap(), ledger());
        // What a killed process has left.
        fs::write(directory.path().join("sub/state.json.new"), "{\"versi").unwrap();
        state.write(&Ledger::default());
        assert!(state.read().unwrap().is_empty());
        assert_eq!(fs::read_dir(directory.path().join("sub")).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_used_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        for content in ["", "{", "[]", "{\"version\": 9}"] {
            fs::write(&path, content).unwrap();
            let error = StateFile::new(path.clone()).read().unwrap_err();
            assert!(error.contains("state.json") && error.contains("first seen now"), "{error}");
        }
        // Neither a symlink nor a directory is read.
        let link = directory.path().join("link");
        fs::write(&path, ledger().to_json().unwrap()).unwrap();
        symlink(&path, &link).unwrap();
        assert!(StateFile::new(link).read().is_err());
        assert!(StateFile::new(directory.path().to_owned()).read().is_err());
        // Nor is what anybody may have written.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(StateFile::new(path).read().unwrap_err().contains("every user may write it"));
    }

    /// The root file system of a pod is read-only.
    #[test]
    fn the_daemon_set_has_a_place_in_memory_for_it() {
        let manifest = include_str!("../../deploy/node/daemonset.yaml");
        let (_, mount) = manifest.split_once("- {name: state-in-memory, mountPath: ").unwrap();
        assert!(mount.starts_with(&format!("{IN_MEMORY}}}\n")));
        let (_, volume) = manifest.split_once("- name: state-in-memory\n").unwrap();
        assert!(volume.trim_start().starts_with("emptyDir: {medium: Memory, "));
    }

    #[test]
    fn what_was_saved_is_not_written_again_and_what_could_not_be_saved_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/state.json");
        let mut state = StateFile::new(path.clone());
        fs::write(directory.path().join("sub"), "in the way").unwrap();
        state.write(&ledger());
        fs::remove_file(directory.path().join("sub")).unwrap();
        state.write(&ledger());
        assert_eq!(state.read().unwrap(), ledger());
        fs::remove_file(&path).unwrap();
        state.write(&ledger());
        assert!(!path.exists(), "it is written for nothing");
        state.write(&Ledger::default());
        assert!(path.exists());
    }
}
