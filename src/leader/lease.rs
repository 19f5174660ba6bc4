//! The Lease on the API server.

use std::fmt;

use http::HeaderValue;
use http::header::USER_AGENT as USER_AGENT_HEADER;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};

use crate::api::{ConnectError, FIELD_MANAGER, USER_AGENT};

/// Where the Lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace, which has to exist.
    pub namespace: String,
    /// Its name; all replicas have the same.
    pub name: String,
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Why a request for the Lease did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Somebody else was faster: it is to be read anew.
    #[error("another replica was faster")]
    Conflict,
    /// Anything else, in the server's own words. It may have taken effect.
    #[error("{0}")]
    Failed(String),
}

/// The requests for one Lease.
pub trait Leases: Send + Sync + 'static {
    /// Reads it; `None` if there is none.
    fn read(&self) -> impl Future<Output = Result<Option<Lease>, LeaseError>> + Send;
    /// Makes it; a conflict if there is one by now.
    fn create(&self, lease: Lease) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
    /// Replaces it at the version that this one was read at; a conflict if it has
    /// changed since.
    fn replace(&self, lease: Lease) -> impl Future<Output = Result<Lease, LeaseError>> + Send;
}

/// A Lease of an API server, by a client of its own: neither a thousand deletions nor a
/// connection that hangs with a watch may stand before a renewal.
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
    /// Sets up the way to it; sends nothing yet.
    ///
    /// # Errors
    /// Certificates or credentials that cannot be used.
    pub fn connect(mut config: kube::Config, name: LeaseName) -> Result<Self, ConnectError> {
        // The elector tries again itself, and counts on each try to be what it seems.
        config.default_retry = false;
        config.headers.push((USER_AGENT_HEADER, HeaderValue::from_static(USER_AGENT)));
        let server = config.cluster_url.to_string();
        let client = kube::Client::try_from(config)
            .map_err(|error| ConnectError::Client { server, cause: error.to_string() })?;
        Ok(Self { leases: Api::namespaced(client, &name.namespace), name })
    }
}

fn written() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn failed(error: &kube::Error) -> LeaseError {
    match error {
        // 404: it was deleted, or its namespace is not there, which reading and
        // creating it will tell.
        kube::Error::Api(status) if status.code == 409 => LeaseError::Conflict,
        kube::Error::Api(status) => LeaseError::Failed(format!("{} {}", status.code, status.message)),
        error => LeaseError::Failed(crate::api::error_chain(error)),
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
