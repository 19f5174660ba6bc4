//! The handle: a tower service over the server, its clock, and streams of watches.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tokio::time::Instant;

use super::server::Server;
use super::settings::Settings;

/// A running embedded server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<Server>,
    started: Instant,
    epoch: SystemTime,
}

impl Embedded {
    /// Starts an empty server.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let epoch = settings.epoch;
        let server = Mutex::new(Server::new(settings));
        Self { shared: Arc::new(Shared { server, started: Instant::now(), epoch }) }
    }

    /// The time on the server's clock.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.shared.epoch + self.shared.started.elapsed()
    }

    /// Looks at the server's state, or changes it behind the clients' backs.
    pub fn with<T>(&self, look: impl FnOnce(&mut Server) -> T) -> T {
        let mut server = self.shared.server.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        look(&mut server)
    }
}
