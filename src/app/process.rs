//! The process of a collector: its runtimes and threads, the signals and the parent that end it, and
//! the file that says that it is ready.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use actix::System;
use rustix::io::Errno;
use rustix::process::{Pid, getppid};
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::{Error, ErrorKind};

/// The runtimes for work that must not run on the actors' thread.
#[derive(Clone, Debug)]
pub struct Threads {
    /// Reads lists and writes pages, on as many threads as the settings say.
    pub lists: Handle,
    /// Reads watches, on one thread.
    pub watches: Handle,
}

/// For threads that nothing prepares.
pub const fn unmarked(_: &mut Builder) {}

/// A runtime with this many threads.
pub fn runtime(name: &str, threads: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.thread_name(name).worker_threads(threads.max(1)).enable_all();
    builder
}

/// Runs a future to completion on the current thread, which also carries the actors and all
/// requests about single objects. Each of these takes a few microseconds between its waits, and
/// handing it to another thread would take longer than the work itself. Work that takes long
/// runs on the [`Threads`] that the future gets, and that `mark` prepares.
///
/// # Errors
/// The operating system provides no thread.
pub fn block_on<F: Future>(
    list_threads: usize,
    mark: impl Fn(&mut Builder),
    future: impl FnOnce(Threads) -> F,
) -> Result<F::Output, Error> {
    let build = |mut builder: Builder| {
        mark(builder.enable_all());
        builder.build().map_err(no_threads)
    };
    let actors = build(Builder::new_current_thread())?;
    let (lists, watches) = (build(runtime("lists", list_threads))?, build(runtime("watches", 1))?);
    let threads = Threads { lists: lists.handle().clone(), watches: watches.handle().clone() };
    let output = System::with_tokio_rt(|| actors).block_on(future(threads));
    // Does not wait for tasks whose results are not needed.
    lists.shutdown_background();
    watches.shutdown_background();
    Ok(output)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn no_threads(error: io::Error) -> Error {
    limited("start a thread", &error)
}

fn limited(what: &str, error: &io::Error) -> Error {
    let limit = if lacks_files(error) { "open files (`ulimit -n`)" } else { "threads or processes" };
    Error::new(ErrorKind::Internal, format!("cannot {what}: {error}; raise the limit of {limit}"))
}

fn lacks_files(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}

/// How long no file can be opened until waiting for a connection is given up.
const AT_LIMIT: Duration = Duration::from_secs(1);

/// Waits for what needs connections. Fails at the limit of open files: this process can make none, and if the API
/// server is in it, too, that can accept none.
pub async fn with_files<T>(wait: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let (mut wait, mut since) = (pin!(wait), Instant::now());
    loop {
        if let Ok(done) = timeout(LOOKS_EVERY, &mut wait).await {
            return done;
        }
        match File::open("/dev/null").err().filter(lacks_files) {
            None => since = Instant::now(),
            Some(_) if since.elapsed() < AT_LIMIT => {}
            Some(error) => return Err(limited("make or accept connections", &error)),
        }
    }
}

/// Resolves with the name of the first signal that asks the process to end.
///
/// # Errors
/// The operating system does not let this process receive signals.
pub fn termination() -> Result<impl Future<Output = &'static str>, Error> {
    let failed = |error| Error::new(ErrorKind::Internal, format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// How often to look for files, and for the parent: no system call that waits for its end is portable, and the
/// signal that Linux offers already comes when the thread ends that started this process.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

/// The process that started this one.
#[derive(Debug)]
pub struct Parent(Pid);

impl Parent {
    /// The present parent. Call this early: without its pid, the end of an earlier one is not noticed.
    ///
    /// # Errors
    /// It has another pid than the expected one, or cannot be seen.
    pub fn new(expected: Option<i32>, present: Option<Pid>) -> Result<Self, Error> {
        let why = match present {
            Some(parent) if expected.is_none_or(|pid| pid == parent.as_raw_pid()) => return Ok(Self(parent)),
            Some(parent) => format!("it has ended, or this process is a child of {}", parent.as_raw_pid()),
            None => "the parent of this process is in another PID namespace".to_owned(),
        };
        let pid = expected.map(|pid| format!("={pid}")).unwrap_or_default();
        let problem = format!("cannot follow --exit-with-parent{pid}: {why}");
        Err(Error::new(
            ErrorKind::Settings,
            format!("{problem}; start kube-gc directly, in the same PID namespace"),
        ))
    }

    /// Resolves when the parent has ended: the system then gives its children to another process.
    pub async fn ends(self) {
        while getppid() == Some(self.0) {
            sleep(LOOKS_EVERY).await;
        }
    }
}

/// The file, from the start of the process to its end.
#[derive(Debug)]
pub struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Removes a file that an earlier process has left: nobody must take it for that of this one.
    ///
    /// # Errors
    /// The file is there and cannot be removed.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let file = Self(path.to_owned());
        file.remove().map_err(|error| file.unusable("remove", &error))?;
        Ok(file)
    }

    /// Writes the addresses of `/metrics` and of the debug pages. Readers see nothing or everything.
    /// The fields are a public interface.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, health: SocketAddr, debug: SocketAddr) -> Result<(), Error> {
        let (pid, version) = (std::process::id(), env!("CARGO_PKG_VERSION"));
        let content = format!(
            r#"{{"apiVersion":"kube-gc.io/v1","kind":"Ready","pid":{pid},"version":"{version}","health":"{health}","debug":"{debug}"}}"#
        );
        self.replace(&format!("{content}\n")).map_err(|error| self.unusable("write", &error))
    }

    fn replace(&self, content: &str) -> io::Result<()> {
        let mut name = self.0.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let new = self.0.with_file_name(name);
        let mut file = File::create_new(&new)?;
        let written = file.write_all(content.as_bytes()).and_then(|()| fs::rename(&new, &self.0));
        if written.is_err() {
            // The first error says what is wrong.
            let _ = fs::remove_file(&new);
        }
        written
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn unusable(&self, what: &str, error: &io::Error) -> Error {
        let path = self.0.display();
        Error::new(
            ErrorKind::Settings,
            format!(
                "cannot {what} the file of --ready-file, {path}: {error}; name a file in a directory that kube-gc may write to"
            ),
        )
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(path = %self.0.display(), %error, "cannot remove the file of --ready-file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_lacks_files_is_told_from_one_too_many() {
        let hint = |errno: Errno| no_threads(errno.into()).to_string();
        assert!(hint(Errno::MFILE).contains("ulimit -n"), "{}", hint(Errno::MFILE));
        assert!(hint(Errno::AGAIN).contains("threads or processes"), "{}", hint(Errno::AGAIN));
    }

    #[test]
    fn a_parent_that_has_ended_or_cannot_be_seen_is_named() {
        let (one, two) = (Pid::from_raw(41), Pid::from_raw(42));
        for fits in [Parent::new(None, two), Parent::new(Some(42), two)] {
            assert_eq!(fits.unwrap().0, two.unwrap());
        }
        for (expected, present, said) in [
            (Some(42), one, "--exit-with-parent=42: it has ended, or this process is a child of 41; "),
            (
                Some(42),
                None,
                "--exit-with-parent=42: the parent of this process is in another PID namespace; ",
            ),
            (None, None, "--exit-with-parent: the parent of this process is in another PID namespace; "),
        ] {
            let error = Parent::new(expected, present).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = ReadyFile::at(directory.path()).unwrap_err().to_string();
        assert!(
            error.contains("--ready-file") && error.contains(directory.path().to_str().unwrap()),
            "{error}"
        );
        let file = ReadyFile::at(&directory.path().join("none/ready.json")).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        assert!(file.write(address, address).unwrap_err().to_string().contains("none/ready.json"));
    }
}
