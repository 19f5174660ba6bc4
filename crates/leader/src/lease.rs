//! The Lease on the API server, its annotations, and the identity of a replica in it.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use uuid::Uuid;

use kube_gc_client::{ConnectError, Connection, FIELD_MANAGER};

/// The namespace and name of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// The namespace, which must exist.
    pub namespace: String,
    /// The name, which all replicas share.
    pub name: String,
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Why a request for the Lease failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Another process changed the Lease. It must be read again.
    #[error("another process changed the Lease at the same time")]
    Conflict,
    /// Any other error, with the server's message. The request may have taken effect.
    #[error("{0}")]
    Failed(String),
}

/// The requests for one Lease.
pub trait Leases: Send + Sync + 'static {
    /// Reads the Lease; `None` if there is none.
    fn read(&self) -> impl Future<Output = Result<Option<Lease>, LeaseError>> + Send;
    /// Creates the Lease; a conflict if it exists.
    fn create(&self, lease: Lease) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
    /// Replaces the Lease at this resource version; a conflict if it has changed.
    fn replace(&self, lease: Lease) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
}

/// The Lease on an API server, with its own client, so that neither many deletions nor a
/// hanging connection delays a renewal.
#[derive(Clone, Debug)]
pub struct ApiLeases {
    leases: Api<Lease>,
    name: LeaseName,
}

impl ApiLeases {
    /// Sets up the client; sends nothing yet.
    ///
    /// # Errors
    /// Certificates or credentials that cannot be used.
    pub fn connect(connection: &Connection, name: LeaseName) -> Result<Self, ConnectError> {
        let client = connection.client()?;
        Ok(Self { leases: Api::namespaced(client, &name.namespace), name })
    }
}

fn written() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn failed(error: &kube::Error) -> LeaseError {
    match error {
        // A 404 means that the Lease was deleted or that its namespace does not exist. The
        // next read or create shows which.
        kube::Error::Api(status) if status.code == 409 => LeaseError::Conflict,
        kube::Error::Api(status) => LeaseError::Failed(format!("{} {}", status.code, status.message)),
        error => LeaseError::Failed(kube_gc_client::error_chain(error)),
    }
}

impl Leases for ApiLeases {
    async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.leases.get_opt(&self.name.name).await.map_err(|error| failed(&error))
    }

    async fn create(&self, mut lease: Lease) -> Result<Lease, LeaseError> {
        lease.metadata.name = Some(self.name.name.clone());
        lease.metadata.namespace = Some(self.name.namespace.clone());
        self.leases.create(&written(), &lease).await.map_err(|error| failed(&error))
    }

    async fn replace(&self, lease: Lease) -> Result<Lease, LeaseError> {
        self.leases.replace(&self.name.name, &written(), &lease).await.map_err(|error| failed(&error))
    }
}

/// Passes state to the next leader, and takes commands from people, through annotations of the
/// Lease. The elector calls these methods, so they must be quick. Without an implementation, they do
/// nothing.
pub trait LeaseAnnotations: fmt::Debug + Send + Sync {
    /// This replica is the leader and has just read or written the Lease.
    fn read(&self, _lease: &Lease) {}

    /// This replica is about to take a Lease that its holder has not released.
    fn inherit(&self, _lease: &Lease) {}

    /// This replica is about to write the Lease as its holder.
    fn write(&self, _lease: &mut Lease) {}

    /// This replica is about to release the Lease.
    fn erase(&self, _lease: &mut Lease) {}

    /// Another replica is the leader.
    fn deposed(&self) {}

    /// Resolves when there is something to write soon.
    fn news(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }
}

/// No annotations.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAnnotations;

impl LeaseAnnotations for NoAnnotations {}

/// The identity of one process among the replicas. It is unique, even among successive
/// processes of the same pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaId(Arc<str>);

impl ReplicaId {
    /// A new identity that begins with `beginning` or, if that is empty, with the host's name.
    /// The rest is random: two processes with the same identity would both hold the lease.
    pub fn new(beginning: &str) -> Self {
        let host = rustix::system::uname();
        let beginning = match (beginning, host.nodename().to_str()) {
            ("", Ok(host)) => host,
            (beginning, _) => beginning,
        };
        // The operating system provides the random keys.
        let random = RandomState::new();
        let unique = Uuid::from_u64_pair(random.hash_one(0), random.hash_one(1));
        Self(format!("{beginning}_{unique}").into())
    }

    /// The holder identity in the Lease.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A shared copy.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_identities_differ_even_with_the_same_name() {
        let (one, other) = (ReplicaId::new("pod"), ReplicaId::new("pod"));
        assert!(one.as_str().starts_with("pod_"), "{one}");
        assert_ne!(one, other);
        assert!(ReplicaId::new("").as_str().find('_').is_some_and(|at| at > 0), "the host has a name");
    }
}
