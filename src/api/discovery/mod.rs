//! Discovery of the types that the API server serves.
//!
//! `fetch` requests the discovery documents, `document` reads them, `services` finds the
//! aggregated APIs, and `select` makes the catalog. A group that cannot be discovered is
//! unknown, which is never the same as gone: what was known of it is kept.

mod contents;
mod definition;
mod document;
mod fetch;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod names;
mod select;
mod services;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::client::Api;
use super::error::ApiError;
pub use contents::{ContentType, ContentTypes};
pub use definition::Definition;
use document::Group;
pub use fetch::GroupFailure;
use kube_gc_core::object::Catalog;
pub use select::Watchable;
use services::Services;

/// The result of one discovery.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    /// Every served type in every version, watchable or not.
    pub catalog: Arc<Catalog>,
    /// The types that can be collected: their verbs include delete, list and watch. Ordered by
    /// group and resource. The caller leaves out ignored types.
    pub watchable: Vec<Watchable>,
    /// The parts that could not be discovered. What was known of them is kept.
    pub failures: Vec<GroupFailure>,
    /// Those of which nothing was known before either.
    pub never_read: Vec<GroupFailure>,
    /// The documents, for the next discovery to fall back on.
    groups: Vec<Group>,
    services: Services,
}

impl Api {
    /// Discovers the served types (rules 2.1 and 2.5): in two requests if the server supports
    /// aggregated discovery, otherwise in one per group version. What `previous` knew of a group
    /// version that cannot be discovered is kept.
    ///
    /// # Errors
    ///
    /// Nothing could be discovered. The caller keeps what it knows.
    pub async fn discover(&self, previous: Option<&Discovered>) -> Result<Discovered, ApiError> {
        let previous_groups = previous.map_or(&[][..], |previous| &previous.groups);
        let fetch::Fetched { groups, failures } = fetch::groups(self, previous_groups).await?;
        let never_read = fetch::never_read(&groups, &failures);
        // After the groups: a group that has just appeared then has its `APIService` already.
        let services = match services::read(self).await {
            Some(services) => services,
            None => previous.map(|previous| previous.services.clone()).unwrap_or_default(),
        };
        let (catalog, watchable) =
            select::select(&groups, &services, previous.map(|previous| &*previous.catalog));
        self.set_aggregated(&watchable);
        Ok(Discovered { catalog: Arc::new(catalog), watchable, failures, never_read, groups, services })
    }

    /// Notes which types aggregated APIs serve.
    pub(crate) fn set_aggregated(&self, watchable: &[Watchable]) {
        let groups = watchable.iter().filter(|watchable| watchable.aggregated);
        self.concurrency().set_aggregated(groups.map(|watchable| &*watchable.resource.group_resource.group));
    }
}
