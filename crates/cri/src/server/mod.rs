//! A container runtime inside the process, with faults on purpose.
//!
//! It serves CRI on a unix socket, from a [`World`] in memory: sandboxes, containers, and images with
//! layers on a disk of limited size. Nothing runs; a container is a state. Faults leave calls without
//! an answer, fail them, change the world before them, or restart the server in the middle of one; a
//! journal has all calls.
//!
//! It does what containerd 1.6 does, also where that is dangerous: it removes a container that runs,
//! and an image that is in use.

mod answers;
mod fault;
mod world;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io};

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use fault::{Change, Effect, Fault};
pub use tonic::Code;
pub use world::{Layer, NewContainer, NewImage, NewSandbox, World};

use crate::client::MESSAGE_LIMIT;
use crate::{ApiVersion, Endpoint, Rpc};

/// How the server differs from containerd 1.6.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The versions of CRI that are served. Without v1alpha2, it calls itself containerd 2.1.
    pub versions: Vec<ApiVersion>,
    /// The longest message that is sent.
    pub message_limit: usize,
    /// How many items a part of a streamed list has; without it, streamed lists are not served.
    pub stream: Option<usize>,
    /// The image of sandboxes, which the verbose status names.
    pub sandbox_image: String,
    /// Where the file system of the images is mounted.
    pub mountpoint: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            versions: vec![ApiVersion::V1, ApiVersion::V1Alpha2],
            message_limit: MESSAGE_LIMIT,
            stream: None,
            sandbox_image: "registry.k8s.io/pause:3.6".to_owned(),
            mountpoint: "/var/lib/containerd".to_owned(),
        }
    }
}

/// A call that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The call.
    pub rpc: Rpc,
    /// The version of the interface that it came by.
    pub api: ApiVersion,
    /// The id or name that it was about; empty for lists.
    pub about: String,
}

/// A server that serves until it is dropped.
#[derive(Debug)]
pub struct CriServer {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    accepting: JoinHandle<()>,
    // Removes the socket, after everything else has ended.
    _directory: TempDir,
}

impl CriServer {
    /// Serves a world on a socket in a new temporary directory.
    ///
    /// # Errors
    ///
    /// The directory or the socket cannot be made.
    pub fn start(settings: Settings, world: World) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("kube-gc-cri-").tempdir()?;
        let socket = directory.path().join("cri.sock");
        let endpoint = Endpoint::parse(&socket.to_string_lossy()).map_err(io::Error::other)?;
        let first = UnixListener::bind(&socket)?;
        let state = Mutex::new(State { settings, world, faults: Vec::new(), journal: Vec::new() });
        let shared = Arc::new(Shared { state, socket, ends: watch::Sender::default() });
        let accepting = tokio::spawn(accept(Arc::clone(&shared), first));
        Ok(Self { shared, endpoint, accepting, _directory: directory })
    }

    /// The socket.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Looks at the world, or changes it.
    pub fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.shared.state().world)
    }

    /// How many bytes of the disk are free.
    pub fn available(&self) -> u64 {
        self.world(|world| world.available())
    }

    /// Restarts with other settings, as after an upgrade in place.
    pub fn upgrade(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.shared.state().settings);
        self.shared.end_connections(None);
    }

    /// Adds a fault. Its calls are counted from now on.
    pub fn fault(&self, fault: Fault) {
        self.shared.state().faults.push(fault::Armed { fault, seen: 0 });
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// All calls so far, in the order of their arrival.
    pub fn journal(&self) -> Vec<Entry> {
        self.shared.state().journal.clone()
    }

    /// What the calls of one kind so far were about: ids and names of images.
    pub fn calls(&self, rpc: Rpc) -> Vec<String> {
        let state = self.shared.state();
        let calls = state.journal.iter().filter(|entry| entry.rpc == rpc);
        calls.map(|entry| entry.about.clone()).collect()
    }

    /// Forgets the calls so far.
    pub fn clear_journal(&self) {
        self.shared.state().journal.clear();
    }
}

impl Drop for CriServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.end_connections(None);
    }
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    socket: PathBuf,
    /// Changes when all connections are to end: how often they have, and for how long nothing listens then,
    /// if the socket closes, too.
    ends: watch::Sender<(u64, Option<Duration>)>,
}

/// What calls read and change.
#[derive(Debug)]
struct State {
    settings: Settings,
    world: World,
    faults: Vec<fault::Armed>,
    journal: Vec<Entry>,
}

impl Shared {
    /// The state. A test that panics while it looks at the world leaves it as it is.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all connections. To restart, it also closes the socket for a while.
    fn end_connections(&self, down: Option<Duration>) {
        self.ends.send_modify(|(number, closed)| (*number, *closed) = (*number + 1, down));
    }
}

/// Accepts connections, restart after restart.
async fn accept(shared: Arc<Shared>, first: UnixListener) {
    let mut ends = shared.ends.subscribe();
    let mut listener = first;
    loop {
        tokio::select! {
            biased;
            changed = ends.changed() => {
                if changed.is_err() {
                    return;
                }
                let (_, down) = *ends.borrow_and_update();
                let Some(down) = down else { continue };
                drop(listener);
                listener = match reopen(&shared.socket, down).await {
                    Ok(listener) => listener,
                    Err(_) => return,
                };
            }
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    tokio::spawn(serve(Arc::clone(&shared), stream));
                }
            }
        }
    }
}

/// Listens again after a while.
async fn reopen(socket: &Path, down: Duration) -> io::Result<UnixListener> {
    let _ = fs::remove_file(socket);
    tokio::time::sleep(down).await;
    UnixListener::bind(socket)
}

/// Serves a connection, until it ends or is ended.
async fn serve(shared: Arc<Shared>, stream: UnixStream) {
    let mut ends = shared.ends.subscribe();
    let calls = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answers::dispatch(shared, request).await) }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.initial_stream_window_size(1 << 20).initial_connection_window_size(1 << 20);
    tokio::select! {
        _ = http.serve_connection(TokioIo::new(stream), calls) => {}
        _ = ends.changed() => {}
    }
}
