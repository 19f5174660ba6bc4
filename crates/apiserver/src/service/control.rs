//! Controls for tests: faults that happen to real servers.

use super::ApiServer;
use crate::guards::{Admission, Conversion};
use crate::resources::{ResourceName, ServiceName, api_services};
use crate::store::{Ending, Snapshot};

impl ApiServer {
    /// Breaks the connections of the open watches of a type, or of all.
    pub fn cut_watches(&self, resource: Option<&ResourceName>) {
        self.with(|server| server.store.end_watches(resource, Ending::Cut));
    }

    /// Ends the open watches of a type, or of all, cleanly.
    pub fn end_watches(&self, resource: Option<&ResourceName>) {
        self.with(|server| server.store.end_watches(resource, Ending::Clean));
    }

    /// The number of open watches of a type.
    #[must_use]
    pub fn watches(&self, resource: &ResourceName) -> usize {
        self.shared.wakers.watches(resource)
    }

    /// Freezes the watch cache of a type, so that it lags behind.
    pub fn freeze(&self, resource: &ResourceName) {
        self.with(|server| server.store.freeze(resource));
    }

    /// Thaws the watch cache of a type, so that it catches up.
    pub fn thaw(&self, resource: &ResourceName) {
        self.with(|server| server.store.thaw(resource));
    }

    /// Drops the history up to a version.
    pub fn compact(&self, up_to: u64) {
        self.with(|server| server.store.compact(up_to));
    }

    /// Takes a backup of all objects.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.with(|server| server.store.snapshot())
    }

    /// Restores a backup.
    pub fn restore(&self, snapshot: &Snapshot) {
        let now = self.now();
        self.with(|server| {
            server.store.restore(snapshot);
            server.resync(now);
        });
    }

    /// Restores a backup, and raises the version by this much above all versions that were
    /// assigned.
    pub fn restore_raised(&self, snapshot: &Snapshot, by: u64) {
        let now = self.now();
        self.with(|server| {
            server.store.restore_raised(snapshot, by);
            server.resync(now);
        });
    }

    /// Makes another server the backend of a service. It serves the groups and versions that
    /// APIServices send there, with its own objects and versions.
    ///
    /// Aggregated discovery shows the types that the backend has now. Terminating namespaces are
    /// not emptied there.
    pub fn connect(&self, service: &ServiceName, backend: &Self) {
        let catalog = backend.with(|server| server.catalog.clone());
        self.backends().insert(service.clone(), backend.clone());
        let now = self.now();
        self.with(|server| {
            server.backends.insert(service.clone(), catalog);
            api_services::reconcile(server, now);
        });
    }

    /// Removes the backend of a service. Its watches break.
    pub fn disconnect(&self, service: &ServiceName) {
        let backend = self.backends().remove(service);
        let now = self.now();
        self.with(|server| {
            server.backends.remove(service);
            api_services::reconcile(server, now);
        });
        if let Some(backend) = backend {
            backend.cut_watches(None);
        }
    }

    /// Sets whether watches from versions that are too old are rejected with 410 instead of
    /// accepted and answered by an event.
    pub fn gone_as_status(&self, refused: bool) {
        self.with(|server| server.settings.gone_as_status = refused);
    }
}

/// The guards: see [`guards`](crate::guards).
impl ApiServer {
    /// Sets or clears the admission function.
    pub fn admit_by(&self, admission: Option<Admission>) {
        self.with(|server| server.guards.admission = admission);
    }

    /// Sets or clears the conversion function.
    pub fn convert_by(&self, conversion: Option<Conversion>) {
        self.with(|server| server.guards.conversion = conversion);
    }

    /// Limits this bearer token to the stored roles of a user. A service account is the user
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub fn restrict(&self, token: &str, user: &str) {
        self.with(|server| server.guards.users.insert(token.into(), user.into()));
    }
}
