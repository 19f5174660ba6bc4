//! The socket, and the ends of its connections.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::watch;

/// What happens to the connections there are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Generation {
    /// Grows when all connections end.
    number: u64,
    /// How long nothing listens then; `None` if the socket stays.
    pub(super) down: Option<Duration>,
}

/// The socket.
#[derive(Debug)]
pub(super) struct Listener {
    path: PathBuf,
    generation: watch::Sender<Generation>,
}

impl Listener {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), generation: watch::Sender::default() }
    }

    pub(super) fn bind(&self) -> io::Result<UnixListener> {
        UnixListener::bind(&self.path)
    }

    /// Changes when all connections are to end.
    pub(super) fn generations(&self) -> watch::Receiver<Generation> {
        self.generation.subscribe()
    }

    /// Removes the socket's file.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Ends all connections.
    pub(super) fn disconnect(&self) {
        self.generation
            .send_modify(|generation| *generation = Generation { number: generation.number + 1, down: None });
    }

    /// Ends all connections, and closes the socket for a while.
    pub(super) fn restart(&self, down: Duration) {
        self.generation.send_modify(|generation| {
            *generation = Generation { number: generation.number + 1, down: Some(down) }
        });
    }
}

/// A temporary directory with a socket, only for this user; removed with this value.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("kube-gc-cri-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.join("cri.sock")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.socket());
        let _ = fs::remove_dir(&self.0);
    }
}
