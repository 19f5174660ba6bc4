//! The state that requests read and change.

use super::guards::Guards;
use super::metrics::Counts;
use super::resources::{Backends, Catalog};
use super::schedule::Schedule;
use super::settings::Settings;
use super::store::Store;

/// The state of the whole server.
#[derive(Debug)]
pub struct Server {
    /// The settings.
    pub settings: Settings,
    /// The stored objects.
    pub store: Store,
    /// The served types.
    pub catalog: Catalog,
    /// The catalogs of the available backends.
    pub backends: Backends,
    /// Scheduled work.
    pub due: Schedule,
    /// The number of requests served.
    pub requests: u64,
    /// The numbers by verb and type.
    pub counts: Counts,
    /// The guards.
    pub guards: Guards,
}
