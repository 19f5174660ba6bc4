//! A minimal API server for a collector: it serves a [`Cluster`], which takes no memory, and
//! records deletions.

mod bodies;
mod discovery;
mod events;
mod serve;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use anyhow::{Result, ensure};
use tokio::net::TcpListener;

use self::events::Log;
use crate::cluster::{Cluster, Number, Type};

pub use self::events::Happened;

/// The encoding of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WatchEncoding {
    /// Protobuf for clients that accept it; JSON for custom types
    #[default]
    Protobuf,
    /// JSON for all types
    Json,
}

/// The state of the server.
#[derive(Debug)]
pub struct Feeder {
    pub cluster: Cluster,
    encoding: WatchEncoding,
    address: String,
    version: AtomicU64,
    gone: RwLock<Gone>,
    /// How many Pods were created later.
    later: AtomicU64,
    logs: Vec<Arc<Log>>,
    /// How many bytes of lists were sent.
    listed: AtomicU64,
    /// How many objects were deleted by requests.
    deleted: AtomicU64,
    unexpected: Mutex<Vec<String>>,
}

/// The deleted objects: one bit for each object.
#[derive(Debug, Default)]
struct Gone(Vec<u64>);

impl Gone {
    fn contains(&self, Number(number): Number) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|bits| bits >> (number % 64) & 1 == 1)
    }

    /// Marks an object as deleted. Returns whether it existed before.
    fn insert(&mut self, Number(number): Number) -> bool {
        let place = (number / 64) as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        let was = self.0[place];
        self.0[place] |= 1 << (number % 64);
        self.0[place] != was
    }
}

impl Feeder {
    /// Starts a feeder on the current runtime.
    pub async fn start(cluster: Cluster, encoding: WatchEncoding) -> Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let feeder = Arc::new(Self {
            cluster,
            encoding,
            address: listener.local_addr()?.to_string(),
            // Objects have lower versions.
            version: AtomicU64::new(cluster.end().0 + 1000),
            gone: RwLock::default(),
            later: AtomicU64::new(0),
            logs: cluster.types().map(|_| Arc::default()).collect(),
            listed: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            unexpected: Mutex::default(),
        });
        tokio::spawn(serve::serve(listener, Arc::clone(&feeder)));
        Ok(feeder)
    }

    /// The kubeconfig for clients.
    pub fn kubeconfig(&self) -> String {
        let server = &self.address;
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: scale\n\
             clusters: [{{name: scale, cluster: {{server: 'http://{server}'}}}}]\n\
             users: [{{name: scale, user: {{}}}}]\n\
             contexts: [{{name: scale, context: {{cluster: scale, user: scale}}}}]\n"
        )
    }

    fn gone(&self) -> RwLockReadGuard<'_, Gone> {
        self.gone.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next object.
    fn end(&self) -> Number {
        Number(self.cluster.end().0 + self.later.load(Ordering::SeqCst))
    }

    async fn tell(&self, number: Number, happened: Happened) -> (Type, u64) {
        let resource = self.cluster.resource(number);
        let version = || self.version.fetch_add(1, Ordering::SeqCst) + 1;
        (resource, self.logs[resource.0].add(number, happened, version).await)
    }

    /// Changes a label of an object.
    pub async fn update(&self, number: Number) -> (Type, u64) {
        self.tell(number, Happened::Modified).await
    }

    /// Creates a pod.
    pub async fn create(&self) -> (Type, u64) {
        let number = Number(self.cluster.end().0 + self.later.fetch_add(1, Ordering::SeqCst));
        self.tell(number, Happened::Added).await
    }

    /// Deletes an object; `None` if it was deleted before.
    pub async fn delete(&self, number: Number) -> Option<(Type, u64)> {
        let was_there = self.gone.write().unwrap_or_else(PoisonError::into_inner).insert(number);
        if was_there { Some(self.tell(number, Happened::Deleted).await) } else { None }
    }

    /// Whether an object exists.
    fn is_there(&self, number: Number) -> bool {
        number < self.end() && self.cluster.is_possible(number) && !self.gone().contains(number)
    }

    /// The number of bytes of lists so far.
    pub fn listed(&self) -> u64 {
        self.listed.load(Ordering::SeqCst)
    }

    /// The number of objects that were deleted by requests so far.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::SeqCst)
    }

    /// Fails if there was a request that the feeder does not serve.
    pub fn understood_all(&self) -> Result<()> {
        let unexpected = self.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(unexpected.is_empty(), "requests that a feeder does not know: {unexpected:?}");
        Ok(())
    }

    /// A reader of the events of a type after a version.
    fn reader(&self, resource: Type, version: u64) -> Option<events::Reader> {
        Arc::clone(&self.logs[resource.0]).read_after(version)
    }
}
