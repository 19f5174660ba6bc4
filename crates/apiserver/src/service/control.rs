//! What tests do to a server: the things that go wrong with real ones.

use super::Embedded;
use crate::resources::{ResourceName, ServiceName, api_services};
use crate::store::{Ending, Snapshot};

impl Embedded {
    /// Breaks the connections of the open watches of a type, or of all.
    pub fn cut_watches(&self, resource: Option<&ResourceName>) {
        self.with(|server| server.store.end_watches(resource, Ending::Cut));
    }

    /// Ends the open watches of a type, or of all, in good order.
    pub fn end_watches(&self, resource: Option<&ResourceName>) {
        self.with(|server| server.store.end_watches(resource, Ending::Clean));
    }

    /// How many watches of a type are open.
    #[must_use]
    pub fn watches(&self, resource: &ResourceName) -> usize {
        self.shared.wakers.watches(resource)
    }

    /// Lets the watch cache of a type lag behind from now on.
    pub fn freeze(&self, resource: &ResourceName) {
        self.with(|server| server.store.freeze(resource));
    }

    /// Lets the watch cache of a type catch up.
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

    /// Goes back to a backup.
    pub fn restore(&self, snapshot: &Snapshot) {
        let now = self.now();
        self.with(|server| {
            server.store.restore(snapshot);
            server.resync(now);
        });
    }

    /// Goes back to a backup, with the version raised by so many above all that were
    /// given out.
    pub fn restore_raised(&self, snapshot: &Snapshot, by: u64) {
        let now = self.now();
        self.with(|server| {
            server.store.restore_raised(snapshot, by);
            server.resync(now);
        });
    }

    /// Lets another server answer for a service: groups and versions that APIServices
    /// send there are served by it from now on, with its own objects and versions.
    ///
    /// Aggregated discovery shows the types that it has now. Nobody empties terminating
    /// namespaces there.
    pub fn connect(&self, service: &ServiceName, backend: &Self) {
        let catalog = backend.with(|server| server.catalog.clone());
        self.backends().insert(service.clone(), backend.clone());
        let now = self.now();
        self.with(|server| {
            server.backends.insert(service.clone(), catalog);
            api_services::reconcile(server, now);
        });
    }

    /// Nobody answers for a service any more; the watches that go there break.
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

    /// Whether watches from versions that are too old are refused with 410, instead
    /// of being told so by an event.
    pub fn gone_as_status(&self, refused: bool) {
        self.with(|server| server.settings.gone_as_status = refused);
    }
}
