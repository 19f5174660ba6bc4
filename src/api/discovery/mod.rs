//! What the API server serves.
//!
//! `fetch` asks, `document` reads the answers, `services` finds out who serves
//! what, and `select` makes a catalog of it. A part that cannot be
//! discovered is unknown, which is never the same as gone: what was known of it
//! is kept.

mod definition;
mod document;
mod fetch;
pub(super) mod fuzzing;
mod select;
mod services;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::client::Api;
use super::error::ApiError;
pub use definition::Definition;
use document::Group;
pub use fetch::GroupFailure;
use kube_gc_core::object::Catalog;
pub use select::Watchable;
use services::Services;

/// The outcome of one discovery.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    /// Every type that is served, through every version, watchable or not.
    pub catalog: Arc<Catalog>,
    /// The types that can be collected: their verbs include delete, list and watch.
    /// Ordered by group and resource. Ignored types are the caller's to leave out.
    pub watchable: Vec<Watchable>,
    /// What could not be discovered; what was known of it before is kept.
    pub failures: Vec<GroupFailure>,
    /// What the answers said, for the next discovery to fall back on.
    groups: Vec<Group>,
    services: Services,
}

impl Discovered {
    /// An outcome that no server gave: for tests and for fixed catalogs.
    #[must_use]
    pub fn fixed(catalog: Arc<Catalog>, watchable: Vec<Watchable>) -> Self {
        Self { catalog, watchable, ..Self::default() }
    }
}

impl Api {
    /// Discovers what the server serves (rules 2.1 and 2.5): in two requests where it
    /// knows aggregated discovery, in one for each group and version otherwise. Failures
    /// are per group version, and what `previous` knew of those is kept.
    ///
    /// # Errors
    ///
    /// Nothing at all could be discovered; keep everything as it is.
    pub async fn discover(&self, previous: Option<&Discovered>) -> Result<Discovered, ApiError> {
        let previous_groups = previous.map_or(&[][..], |previous| &previous.groups);
        let fetch::Fetched { groups, failures } = fetch::groups(self, previous_groups).await?;
        // Afterwards: a group that has just come has its `APIService` already.
        let services = match services::read(self).await {
            Some(services) => services,
            None => previous.map(|previous| previous.services.clone()).unwrap_or_default(),
        };
        let (catalog, watchable) =
            select::select(&groups, &services, previous.map(|previous| &*previous.catalog));
        self.set_aggregated(&watchable);
        Ok(Discovered { catalog: Arc::new(catalog), watchable, failures, groups, services })
    }

    /// Notes which types aggregated APIs serve.
    pub(crate) fn set_aggregated(&self, watchable: &[Watchable]) {
        let groups = watchable.iter().filter(|watchable| watchable.aggregated);
        self.concurrency().set_aggregated(groups.map(|watchable| &*watchable.resource.group_resource.group));
    }
}
