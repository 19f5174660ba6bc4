//! The socket, its connections, and their ends.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use super::{Shared, service};

/// What happens to the connections there are.
#[derive(Clone, Copy, Debug, Default)]
struct Generation {
    /// Grows when all connections end.
    number: u64,
    /// How long nothing listens then; `None` if the socket stays.
    down: Option<Duration>,
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

/// Accepts connections, restart after restart.
pub(super) async fn accept(shared: Arc<Shared>, first: UnixListener) {
    let mut generations = shared.listener.generation.subscribe();
    let mut listener = Some(first);
    loop {
        let listening = match listener.take() {
            Some(listener) => listener,
            None => match shared.listener.bind() {
                Ok(listener) => listener,
                Err(_) => return,
            },
        };
        loop {
            tokio::select! {
                biased;
                changed = generations.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let down = generations.borrow_and_update().down;
                    if let Some(down) = down {
                        drop(listening);
                        let _ = fs::remove_file(&shared.listener.path);
                        tokio::time::sleep(down).await;
                        break;
                    }
                }
                accepted = listening.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tokio::spawn(serve(Arc::clone(&shared), stream));
                    }
                }
            }
        }
    }
}

/// Serves a connection, until it ends or is ended.
async fn serve(shared: Arc<Shared>, stream: UnixStream) {
    let mut generations = shared.listener.generation.subscribe();
    let calls = hyper::service::service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, std::convert::Infallible>(service::dispatch(shared, request).await) }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.initial_stream_window_size(1 << 20).initial_connection_window_size(1 << 20);
    tokio::select! {
        _ = http.serve_connection(TokioIo::new(stream), calls) => {}
        _ = generations.changed() => {}
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
