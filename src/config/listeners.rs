//! `[http]`, `[tls]` and `[access]`: the two listeners, their encryption and authorization.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[http]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// The address for health and metrics.
    pub listen: SocketAddr,
    /// The address for the debug pages.
    pub debug_listen: SocketAddr,
    /// The names by which the listeners may be asked, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self { listen: loopback(8080), debug_listen: loopback(8081), hosts: Vec::new() }
    }
}

/// One of the two listeners of `[http]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Listener {
    /// Health and metrics: `http.listen`.
    Health,
    /// The debug pages: `http.debug_listen`.
    Debug,
}

impl Listener {
    /// The name in settings, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Debug => "debug",
        }
    }
}

/// The listeners that a setting applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listeners {
    /// Neither.
    #[default]
    None,
    /// Health and metrics.
    Health,
    /// The debug pages.
    Debug,
    /// Both.
    Both,
}

impl Listeners {
    /// Whether the setting applies to this listener.
    #[must_use]
    pub const fn include(self, listener: Listener) -> bool {
        match self {
            Self::None => false,
            Self::Health => matches!(listener, Listener::Health),
            Self::Debug => matches!(listener, Listener::Debug),
            Self::Both => true,
        }
    }
}

/// `[tls]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The listeners that use TLS.
    pub listeners: Listeners,
    /// The file with the certificate chain; empty means none.
    pub certificate: PathBuf,
    /// The file with the private key; empty means none.
    pub key: PathBuf,
}

/// `[access]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSettings {
    /// The listeners that authenticate and authorize requests through the API server.
    pub listeners: Listeners,
}
