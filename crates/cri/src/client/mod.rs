//! Calls to a container runtime: each with a deadline, each counted, each with an error that says
//! what to do.

mod call;
mod connection;
mod list;
mod observe;
mod operations;
mod probe;
mod raw;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use list::{Coverage, Listing, PodKey};
pub use observe::{Observer, Operation};

use self::connection::Connection;
use crate::messages::{VersionRequest, VersionResponse};
use crate::{ApiVersion, Endpoint, Error, ability};

/// The longest message in either direction: what runtimes and the kubelet have agreed on.
pub const MESSAGE_LIMIT: usize = 16 * 1024 * 1024;
/// The version of its interface that the kubelet states.
const KUBELET_API_VERSION: &str = "0.1.0";

/// How the client behaves.
#[derive(Clone)]
pub struct Settings {
    /// How long a call may take; stopping a container also has its grace period. The default is the
    /// kubelet's, 2 minutes.
    pub deadline: Duration,
    /// How long the first call may take, which asks for the runtime's version.
    pub connect_deadline: Duration,
    /// The maximum size in bytes of a list that comes in parts. A list beyond it is an error.
    pub list_limit: usize,
    /// Told about each call; connects it to metrics.
    pub observer: Option<Observer>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(120),
            connect_deadline: Duration::from_secs(10),
            list_limit: 256 * 1024 * 1024,
            observer: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("deadline", &self.deadline)
            .field("connect_deadline", &self.connect_deadline)
            .field("list_limit", &self.list_limit)
            .finish_non_exhaustive()
    }
}

/// A container runtime, ready to be called. Cheap to clone.
///
/// When the runtime restarts, the next call connects again.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    endpoint: Endpoint,
    connection: Arc<Connection>,
    api: ApiVersion,
    runtime: VersionResponse,
    settings: Settings,
}

impl Client {
    /// Connects to a runtime and asks for its version, by CRI v1 or else v1alpha2.
    ///
    /// # Errors
    ///
    /// There is no socket, it cannot be used, or what listens is no container runtime.
    pub async fn connect(endpoint: &Endpoint, settings: Settings) -> Result<Self, Error> {
        let connection = Arc::new(Connection::new(endpoint.path()));
        let connect_deadline = settings.connect_deadline;
        let inner = Inner {
            endpoint: endpoint.clone(),
            connection,
            api: ApiVersion::V1,
            runtime: VersionResponse::default(),
            settings,
        };
        let mut client = Self { inner: Arc::new(inner) };
        let request = VersionRequest { version: KUBELET_API_VERSION.to_owned() };
        let mut refused = None;
        for api in [ApiVersion::V1, ApiVersion::V1Alpha2] {
            client = client.with(|inner| inner.api = api);
            match client.call_within(&request, connect_deadline).await {
                Ok(runtime) => return Ok(client.with(|inner| inner.runtime = runtime)),
                Err(Error::Unimplemented { detail, .. }) => _ = refused.get_or_insert(detail),
                // Something closes the connection or answers in another protocol.
                Err(Error::Disconnected { detail, .. }) => {
                    return Err(Error::NotCri { path: endpoint.path().into(), detail });
                }
                Err(other) => return Err(other),
            }
        }
        Err(Error::NotCri { path: endpoint.path().into(), detail: refused.unwrap_or_default() })
    }

    /// The same client with something changed. Only `connect` changes anything.
    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let Inner { endpoint, connection, api, runtime, settings } = &*self.inner;
        let mut inner = Inner {
            endpoint: endpoint.clone(),
            connection: Arc::clone(connection),
            api: *api,
            runtime: runtime.clone(),
            settings: settings.clone(),
        };
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// The socket.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    /// The version of CRI that is spoken.
    #[must_use]
    pub fn api(&self) -> ApiVersion {
        self.inner.api
    }

    /// What the runtime said about itself when it was connected to.
    #[must_use]
    pub fn runtime(&self) -> &VersionResponse {
        &self.inner.runtime
    }

    /// Whether its containers may have images mounted as volumes. Only their status says which.
    #[must_use]
    pub fn mounts_images(&self) -> bool {
        ability::mounts_images(self.inner.api, &self.inner.runtime)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.inner.endpoint)
            .field("api", &self.inner.api)
            .finish_non_exhaustive()
    }
}
