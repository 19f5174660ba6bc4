//! The state file: when each image was first seen and last used (B4).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kube_gc_node::Ledger;
use kube_gc_node::ledger::LONGEST;
use rustix::fs::OFlags;

/// Where the ages of images are kept.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The state file at this path.
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What the file has; an empty ledger if there is no file.
    ///
    /// # Errors
    /// It cannot be read, or what it has cannot be used. The caller warns and begins anew.
    pub fn read(&self) -> Result<Ledger, String> {
        let problem = |why: &dyn std::fmt::Display| {
            format!(
                "cannot use the state file {}: {why}; all images count as first seen now",
                self.path.display()
            )
        };
        let content = match read(&self.path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ledger::default()),
            Err(error) => return Err(problem(&error)),
        };
        Ledger::parse(&content).map_err(|error| problem(&error))
    }

    /// Replaces the file in one step: a crash leaves either the old or the new content.
    ///
    /// # Errors
    /// It cannot be written. The ages are then lost with this process.
    pub fn write(&self, ledger: &Ledger) -> Result<(), String> {
        let problem = |why: &dyn std::fmt::Display| {
            format!(
                "cannot write the state file {}: {why}; the ages of images are forgotten when this process ends",
                self.path.display()
            )
        };
        let content = ledger.to_json().map_err(|error| problem(&error))?;
        replace(&self.path, &content).map_err(|error| problem(&error))
    }
}

/// What a state file has, for a process that goes on running.
#[derive(Debug, Default)]
pub struct Saved {
    revision: Option<u64>,
}

impl Saved {
    /// Writes the file, unless it has the same already. A failure is logged.
    pub fn save(&mut self, file: &StateFile, ledger: &Ledger) {
        let revision = ledger.revision();
        if self.revision == Some(revision) {
            return;
        }
        match file.write(ledger) {
            Ok(()) => self.revision = Some(revision),
            Err(problem) => tracing::warn!("{problem}"),
        }
    }
}

/// Reads a regular file that is not too long. Neither a symlink nor a pipe is opened.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
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
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // So that the new name survives a loss of power, too.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use kube_gc_node::Timestamp;
    use kube_gc_node::ledger::Record;

    use super::*;

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.set("a", Record { first_detected: Timestamp::from_secs(7), last_used: None });
        ledger
    }

    #[test]
    fn what_was_written_is_read_again_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateFile::new(directory.path().join("sub/state.json"));
        assert!(state.read().unwrap().is_empty());
        state.write(&ledger()).unwrap();
        assert_eq!(state.read().unwrap(), ledger());
        state.write(&Ledger::default()).unwrap();
        assert!(state.read().unwrap().is_empty());
        assert_eq!(fs::read_dir(directory.path().join("sub")).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_process_left_behind_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("state.json.new"), "{\"versi").unwrap();
        let state = StateFile::new(directory.path().join("state.json"));
        state.write(&ledger()).unwrap();
        assert_eq!(state.read().unwrap(), ledger());
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        for content in ["", "{", "[]", "{\"version\": 9}"] {
            fs::write(&path, content).unwrap();
            let error = StateFile::new(path.clone()).read().unwrap_err();
            assert!(error.contains("state.json") && error.contains("first seen now"), "{error}");
        }
    }

    #[test]
    fn a_symlink_and_a_directory_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, ledger().to_json().unwrap()).unwrap();
        symlink(&target, &link).unwrap();
        assert!(StateFile::new(link).read().is_err());
        assert!(StateFile::new(directory.path().to_owned()).read().is_err());
    }

    #[test]
    fn what_was_saved_is_not_written_again_and_what_could_not_be_saved_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/state.json");
        let (mut saved, state) = (Saved::default(), StateFile::new(path.clone()));
        fs::write(directory.path().join("sub"), "in the way").unwrap();
        saved.save(&state, &ledger());
        fs::remove_file(directory.path().join("sub")).unwrap();
        saved.save(&state, &ledger());
        assert_eq!(state.read().unwrap(), ledger());
        fs::remove_file(&path).unwrap();
        saved.save(&state, &ledger());
        assert!(!path.exists(), "it is written for nothing");
        saved.save(&state, &Ledger::default());
        assert!(path.exists());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error() {
        let error = StateFile::new("/proc/nothing/state.json".into()).write(&ledger()).unwrap_err();
        assert!(error.contains("/proc/nothing/state.json"), "{error}");
    }
}
