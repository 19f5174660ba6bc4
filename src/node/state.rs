//! The state file: when each image was first seen and last used (B4).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube_gc_node::ledger::LONGEST;
use kube_gc_node::{Ledger, Moment};
use rustix::fs::OFlags;
use rustix::process::geteuid;

use super::now;

/// Where systemd says that a service may keep what need not survive a reboot.
const RUNTIME_DIRECTORY: &str = "RUNTIME_DIRECTORY";
/// Where that is for the service of `deploy/systemd`, and without systemd. The DaemonSet has it in memory.
const IN_MEMORY: &str = "/run/kube-gc-node";

/// Nobody needs so long to lock a file that is new.
const LEFT: Duration = Duration::from_secs(60);

/// Where the ages of images are kept.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    /// Where they are kept, in memory, while the path cannot be written: the disk that has to be cleaned up may be the
    /// same. The first that can be written is; another process may have taken another one.
    volatile: Vec<PathBuf>,
    /// What this process has read or written, by the path.
    known: BTreeMap<PathBuf, Vec<u8>>,
    /// What was wrong the last time, and has been said.
    problem: Option<String>,
}

impl StateFile {
    /// The state file for the runtime with this socket: another runtime has its own beside it, with ages of its own.
    pub fn new(path: &Path, socket: &Path) -> Self {
        let socket = fs::canonicalize(socket).unwrap_or_else(|_| socket.to_owned());
        let path = PathBuf::from(format!("{}.{}", path.display(), name(&socket)));
        let given = std::env::var(RUNTIME_DIRECTORY).unwrap_or_default();
        let given = given.split(':').next().filter(|directory| !directory.is_empty());
        // Each state file has its own.
        let copy = name(&path);
        let volatile = given.into_iter().chain([IN_MEMORY]).map(|directory| Path::new(directory).join(&copy));
        Self { volatile: volatile.collect(), path, known: BTreeMap::new(), problem: None }
    }

    /// What the copies that can be used say; an empty ledger if there is none. Also returns what cannot be used.
    pub fn read(&mut self) -> (Ledger, Vec<String>) {
        self.read_at(&now())
    }

    fn read_at(&mut self, now: &Moment) -> (Ledger, Vec<String>) {
        let (mut copies, mut problems) = (Vec::new(), Vec::new());
        for (path, copy) in self.news(now) {
            match copy {
                Ok(copy) => copies.push(copy),
                Err(why) => problems.push(format!("cannot use the state file {}: {why}", path.display())),
            }
        }
        let newest = Ledger::newest(copies, now);
        let instead =
            if newest.is_some() { "another copy is used" } else { "all images count as first seen now" };
        let problems = problems.into_iter().map(|problem| format!("{problem}; {instead}")).collect();
        (newest.unwrap_or_default(), problems)
    }

    /// The same with what other processes have written since.
    pub(super) fn joined(&mut self, ledger: Ledger, now: &Moment) -> Ledger {
        let copies = self.news(now).into_iter().filter_map(|(_, copy)| copy.ok());
        copies.fold(ledger, |ledger, copy| ledger.joined(&copy, now))
    }

    /// What there is that this process has neither read nor written.
    fn news(&mut self, now: &Moment) -> Vec<(PathBuf, Result<Ledger, String>)> {
        let mut news = Vec::new();
        for path in [&self.path].into_iter().chain(&self.volatile) {
            let copy = match content(path) {
                Ok(content) if self.known.get(path) == Some(&content) => continue,
                Ok(content) => {
                    let copy = Ledger::parse(&content).and_then(|copy| copy.until(now));
                    self.known.insert(path.clone(), content);
                    copy.map_err(|why| why.to_string())
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    continue;
                }
                Err(error) => Err(error.to_string()),
            };
            news.push((path.clone(), copy));
        }
        news
    }

    /// Replaces the file in one step, unless it has the same already: a crash leaves either the old or the new
    /// content. That it cannot be written is logged: the ages are then lost with this process.
    pub fn write(&mut self, ledger: &Ledger) {
        let content = ledger.to_json().map_err(io::Error::from);
        let is_kept = |content: &Vec<u8>| {
            // A copy counts only if this process could not write the file: others may have left it.
            let copies = self.volatile.iter().filter(|_| self.problem.is_some());
            [&self.path].into_iter().chain(copies).any(|path| self.known.get(path) == Some(content))
        };
        if content.as_ref().is_ok_and(is_kept) {
            return;
        }
        let problem = match content.and_then(|content| self.replace(content)) {
            Ok(problem) => problem,
            Err(error) => Some(format!(
                "cannot write the state file {}: {error}; when this process ends, the ages of images that it knows \
                 are forgotten, and the next process believes an older file, if there is one",
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
    fn replace(&mut self, content: Vec<u8>) -> io::Result<Option<String>> {
        let Err(error) = replace(&self.path, &content) else {
            // They are older now.
            self.volatile.iter().for_each(|copy| _ = fs::remove_file(copy));
            self.known = [(self.path.clone(), content)].into();
            return Ok(None);
        };
        let Some(copy) = self.volatile.iter().find(|copy| replace(copy, &content).is_ok()) else {
            return Err(error);
        };
        self.known.insert(copy.clone(), content);
        Ok(Some(format!(
            "cannot write the state file {}: {error}; it is kept at {} until that is possible",
            self.path.display(),
            copy.display()
        )))
    }
}

/// A path as a name that no other path has, like the units of systemd.
fn name(path: &Path) -> String {
    let text = path.as_os_str().as_encoded_bytes().escape_ascii().to_string();
    text.trim_start_matches('/').replace('-', r"\x2d").replace('/', "-")
}

/// Opens a file to read it, but no symlink, and without waiting for a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Reads a regular file that is not too long and that nobody else can write.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
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
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new.");
    tidy(directory, Path::new(&temporary));
    // Another process may write at the same time, and have the same id in a namespace of its own.
    temporary.push(format!("{:x}", RandomState::new().build_hasher().finish()));
    let new = PathBuf::from(temporary);
    let mut file = create(&new)?;
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

/// A new file, locked as long as it is open. Where there are no locks, nobody takes one for left.
fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let _ = file.lock();
    Ok(file)
}

/// Removes what killed processes have left: files whose names begin so, and that nobody has locked. A new one may not
/// be locked yet.
fn tidy(directory: &Path, beginning: &Path) {
    let Some(beginning) = beginning.file_name().and_then(OsStr::to_str) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_str().is_some_and(|name| name.starts_with(beginning));
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|modified| modified.elapsed().ok());
        let path = entry.path();
        let is_left = is_temporary && age.is_some_and(|age| age > LEFT);
        if is_left && open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::SystemTime;

    use kube_gc_node::ledger::Age;
    use kube_gc_node::view::Image;
    use kube_gc_node::{Moment, PodView, RuntimeView, Timestamp};

    use super::*;

    /// Twenty days after this boot.
    fn at_end() -> Moment {
        Moment { uptime: Duration::from_secs(20 * 86_400), ..now() }
    }

    /// A ledger of this boot that has counted for so many times five minutes.
    fn ledger(count: u64) -> Ledger {
        let mut ledger = Ledger::default();
        let images = vec![Image { id: "a".to_owned(), ..Image::default() }];
        let runtime = RuntimeView { images, ..RuntimeView::default() };
        let uptime = Duration::from_secs(900 + 300 * count);
        let wall = Timestamp::default().plus(uptime);
        ledger.observe(&runtime, &PodView::None, &Moment { uptime, wall, ..now() });
        ledger.set("a", Age { detected: Duration::from_secs(300 * count), used: None });
        ledger
    }

    /// A state file in a directory, with two places for copies.
    fn state(directory: &Path) -> StateFile {
        let volatile = ["given", "memory"].map(|place| directory.join(place).join("copy")).into();
        StateFile { volatile, ..StateFile::new(&directory.join("sub/state.json"), Path::new("/run/x.sock")) }
    }

    /// As another process reads it.
    fn read_at_end(state: &StateFile) -> (Ledger, Vec<String>) {
        StateFile { known: BTreeMap::new(), ..state.clone() }.read_at(&at_end())
    }

    fn read(state: &StateFile) -> Ledger {
        let (ledger, problems) = read_at_end(state);
        assert_eq!(problems, [""; 0]);
        ledger
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Another process writes at the same time, and one was killed.
    #[test]
    fn what_was_written_is_read_again_and_only_what_another_process_writes_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = state(directory.path());
        assert!(read(&state).is_empty());
        state.write(&ledger(1));
        assert_eq!(read(&state), ledger(1));
        let sub = directory.path().join("sub");
        let now = SystemTime::now();
        let mut writing = Vec::new();
        for (id, age, is_written) in [("1", 0, false), ("2", 90, true), ("3", 90, false)] {
            let file = create(&sub.join(format!("state.json.run-x.sock.new.{id}"))).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
            writing.extend(is_written.then_some(file));
        }
        state.write(&Ledger::default());
        assert!(read(&state).is_empty());
        assert_eq!(names(&sub), ["", ".new.1", ".new.2"].map(|end| format!("state.json.run-x.sock{end}")));
    }

    /// By hand and as a service, copies are at different places.
    #[test]
    fn the_newest_copy_that_can_be_used_counts_wherever_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let state = state(directory.path());
        let places: Vec<&PathBuf> = [&state.path].into_iter().chain(&state.volatile).collect();
        for place in &places {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
        }
        for newest in 0..3 {
            for (place, path) in places.iter().enumerate() {
                fs::write(path, ledger(if place == newest { 9 } else { 1 }).to_json().unwrap()).unwrap();
            }
            assert_eq!(read(&state), ledger(9), "{newest}");
            // A damaged copy hides no other one, nor does one that is ahead of this boot.
            for content in [b"{".to_vec(), ledger(6000).to_json().unwrap()] {
                fs::write(places[newest], content).unwrap();
                let (found, problems) = read_at_end(&state);
                assert_eq!(found, ledger(1));
                assert!(problems.len() == 1 && problems[0].contains("another copy is used"), "{problems:?}");
            }
        }
    }

    /// Its disk is full, is read-only, or something is in the way.
    #[test]
    fn what_cannot_be_written_is_kept_elsewhere_and_moved_as_soon_as_it_can_be() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = state(directory.path());
        fs::write(directory.path().join("sub"), "in the way").unwrap();
        for (blocked, copy) in [("", "given"), ("given", "memory")] {
            if !blocked.is_empty() {
                fs::remove_dir_all(directory.path().join(blocked)).unwrap();
                fs::write(directory.path().join(blocked), "in the way").unwrap();
            }
            state.known.clear();
            state.write(&ledger(1));
            assert_eq!(names(&directory.path().join(copy)), ["copy"]);
            assert!(state.problem.as_ref().is_some_and(|problem| problem.contains("is kept at")));
            assert_eq!(read(&state), ledger(1));
        }
        fs::remove_file(directory.path().join("sub")).unwrap();
        state.write(&ledger(2));
        assert_eq!((names(&directory.path().join("memory")).len(), read(&state)), (0, ledger(2)));
        assert_eq!(state.problem, None);
    }

    #[test]
    fn if_nothing_can_be_written_a_warning_says_what_the_next_process_believes() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = state(directory.path());
        for place in ["sub", "given", "memory"] {
            fs::write(directory.path().join(place), "in the way").unwrap();
        }
        state.write(&ledger(1));
        assert!(state.problem.is_some_and(|problem| problem.contains("believes an older file")));
    }

    #[test]
    fn each_runtime_has_its_own_ages_whatever_its_socket_is_called() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let link = directory.path().join("link.sock");
        fs::write(directory.path().join("one.sock"), "").unwrap();
        symlink("one.sock", &link).unwrap();
        let of = |name: &str| StateFile::new(&path, &directory.path().join(name));
        of("one.sock").write(&ledger(1));
        of("two.sock").write(&ledger(2));
        for (name, wanted) in [("one.sock", ledger(1)), ("link.sock", ledger(1)), ("two.sock", ledger(2))] {
            assert_eq!(read(&of(name)), wanted, "{name}");
        }
        // Nor do copies in memory have the same name.
        let copies = ["/a/b-c", "/a-b/c", r"/a\x2db/c", "/a/b/c"];
        let copies = copies.map(|path| StateFile::new(Path::new(path), &link).volatile.remove(0));
        assert_eq!(copies.iter().collect::<HashSet<_>>().len(), 4, "{copies:?}");
    }

    #[test]
    fn what_cannot_be_used_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let state = || StateFile::new(&directory.path().join("state.json"), Path::new("/run/x.sock"));
        let path = state().path;
        let error = |path: &Path| {
            let (ledger, problems) = StateFile { path: path.to_owned(), ..state() }.read();
            assert!(ledger.is_empty() && problems.len() == 1, "{problems:?}");
            problems.concat()
        };
        for content in ["", "{", "[]", "{\"version\": 9}"] {
            fs::write(&path, content).unwrap();
            let error = error(&path);
            assert!(error.contains("state.json") && error.contains("first seen now"), "{error}");
        }
        // Neither a symlink nor a directory is read.
        let link = directory.path().join("link");
        fs::write(&path, ledger(1).to_json().unwrap()).unwrap();
        symlink(&path, &link).unwrap();
        error(&link);
        error(directory.path());
        // Nor is what anybody may have written.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(error(&path).contains("every user may write it"));
    }

    /// The root file system of a pod is read-only.
    #[test]
    fn the_daemon_set_and_the_service_have_a_place_in_memory_for_it() {
        let manifest = include_str!("../../deploy/node/daemonset.yaml");
        let (_, mount) = manifest.split_once("- {name: state-in-memory, mountPath: ").unwrap();
        assert!(mount.starts_with(&format!("{IN_MEMORY}}}\n")));
        let (_, volume) = manifest.split_once("- name: state-in-memory\n").unwrap();
        assert!(volume.trim_start().starts_with("emptyDir: {medium: Memory, "));
        let unit = include_str!("../../deploy/systemd/kube-gc-node.service");
        assert!(unit.contains(&format!("RuntimeDirectory={}\n", IN_MEMORY.trim_start_matches("/run/"))));
    }

    #[test]
    fn what_was_saved_is_not_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = state(directory.path());
        state.write(&ledger(1));
        fs::remove_file(&state.path).unwrap();
        state.write(&ledger(1));
        assert!(!state.path.exists(), "it is written for nothing");
        state.write(&Ledger::default());
        assert!(state.path.exists());
    }
}
