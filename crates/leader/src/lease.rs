//! Reads and writes the Lease.

use std::fmt;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};

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
#[derive(Clone)]
pub struct ApiLeases {
    leases: Api<Lease>,
    name: LeaseName,
}

impl fmt::Debug for ApiLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiLeases").field("name", &self.name).finish_non_exhaustive()
    }
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
