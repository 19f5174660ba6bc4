//! A minimal API server for a collector: it serves a [`Cluster`], which takes no memory. Nothing in
//! it is garbage.

mod bodies;
mod discovery;
mod events;
mod serve;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use tokio::net::TcpListener;

use self::events::Log;
use super::cluster::{Cluster, Number, Type, namespace};

/// The state of the server.
#[derive(Debug)]
pub struct Feeder {
    pub cluster: Cluster,
    address: String,
    version: AtomicU64,
    /// How many Pods were created later.
    later: AtomicU64,
    logs: Vec<Arc<Log>>,
    unexpected: Mutex<Vec<String>>,
}

impl Feeder {
    /// Starts a feeder on the current runtime.
    pub async fn start(cluster: Cluster) -> Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let feeder = Arc::new(Self {
            cluster,
            address: listener.local_addr()?.to_string(),
            // Objects have lower versions.
            version: AtomicU64::new(cluster.end().0 + 1000),
            later: AtomicU64::new(0),
            logs: cluster.types().map(|_| Arc::default()).collect(),
            unexpected: Mutex::default(),
        });
        tokio::spawn(serve::serve(listener, Arc::clone(&feeder)));
        Ok(feeder)
    }

    /// The kubeconfig for clients.
    pub fn kubeconfig(&self) -> String {
        let (server, mut first) = (&self.address, String::new());
        // A command looks for it, to see that a collector is of the same cluster.
        namespace(&mut first, &self.cluster, Number(0));
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: scale\n\
             clusters: [{{name: scale, cluster: {{server: 'http://{server}'}}}}]\n\
             users: [{{name: scale, user: {{}}}}]\n\
             contexts: [{{name: scale, context: {{cluster: scale, user: scale, namespace: {first}}}}}]\n"
        )
    }

    /// The number of the next object.
    fn end(&self) -> Number {
        Number(self.cluster.end().0 + self.later.load(Ordering::SeqCst))
    }

    async fn tell(&self, number: Number, happened: &'static str) -> (Type, u64) {
        let resource = self.cluster.resource(number);
        let version = || self.version.fetch_add(1, Ordering::SeqCst) + 1;
        (resource, self.logs[resource.0].add(number, happened, version).await)
    }

    /// Changes a label of an object.
    pub async fn update(&self, number: Number) -> (Type, u64) {
        self.tell(number, "MODIFIED").await
    }

    /// Creates a pod.
    pub async fn create(&self) -> (Type, u64) {
        let number = Number(self.cluster.end().0 + self.later.fetch_add(1, Ordering::SeqCst));
        self.tell(number, "ADDED").await
    }

    /// Fails if there was a request that the feeder does not serve.
    pub fn understood_all(&self) -> Result<()> {
        let unexpected = self.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(unexpected.is_empty(), "requests that a feeder does not know: {unexpected:?}");
        Ok(())
    }
}
