//! A container runtime inside the process, with faults on purpose.
//!
//! It serves CRI on a unix socket, from a [`World`] in memory: sandboxes, containers, and images with
//! layers on a disk of limited size. Nothing runs; a container is a state. Faults delay calls, fail
//! them, change the world around them, or restart the server in the middle of one; a journal has all
//! calls.
//!
//! It does what containerd 1.6 does, also where that is dangerous: it removes a container that runs,
//! and an image that is in use. `tests/containerd` does the same to both and compares.

mod accept;
mod answer;
mod disk;
mod fault;
mod journal;
mod listener;
mod service;
mod settings;
mod shared;
mod world;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

pub use disk::{Disk, DiskUsage, Layer, Space};
pub use fault::{Calls, Change, Effect, Fault};
pub use journal::Entry;
pub use settings::Settings;
pub use tonic::Code;
pub use world::{NewContainer, NewImage, NewSandbox, World};

use crate::{Endpoint, Rpc};
use accept::accept;
use shared::Shared;

/// A server that serves until it is dropped.
#[derive(Debug)]
pub struct CriServer {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    accepting: JoinHandle<()>,
    // Removes the socket, after everything else has ended.
    _directory: listener::Directory,
}

impl CriServer {
    /// Serves a world on a socket in a new temporary directory.
    ///
    /// # Errors
    ///
    /// The directory or the socket cannot be made.
    pub fn start(settings: Settings, world: World) -> io::Result<Self> {
        let directory = listener::Directory::new()?;
        let endpoint = Endpoint::parse(&directory.socket().to_string_lossy()).map_err(io::Error::other)?;
        let shared = Arc::new(Shared::new(settings, world, endpoint.path()));
        let first = shared.listener.bind()?;
        let accepting = tokio::spawn(accept(Arc::clone(&shared), first));
        Ok(Self { shared, endpoint, accepting, _directory: directory })
    }

    /// The socket.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Looks at the world, or changes it.
    pub fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.shared.state().world)
    }

    /// How full the disk is: what `statvfs` would say.
    #[must_use]
    pub fn disk_usage(&self) -> DiskUsage {
        self.world(|world| world.disk.usage())
    }

    /// Adds a fault. Its calls are counted from now on.
    pub fn fault(&self, fault: Fault) {
        self.shared.state().faults.push(fault.into());
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// All calls so far, in the order of their arrival.
    #[must_use]
    pub fn journal(&self) -> Vec<Entry> {
        self.shared.state().journal.clone()
    }

    /// What the calls of one kind so far were about: ids and names of images.
    #[must_use]
    pub fn calls(&self, rpc: Rpc) -> Vec<String> {
        self.shared
            .state()
            .journal
            .iter()
            .filter(|entry| entry.rpc == rpc)
            .map(|entry| entry.about.clone())
            .collect()
    }

    /// Forgets the calls so far.
    pub fn clear_journal(&self) {
        self.shared.state().journal.clear();
    }

    /// Ends all connections, and serves again after a while.
    pub fn restart(&self, down: Duration) {
        self.shared.listener.restart(down);
    }
}

impl Drop for CriServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.listener.disconnect();
    }
}
