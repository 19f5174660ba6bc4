//! What the API server serves.

use std::sync::Arc;

use super::client::Api;
use super::error::ApiError;
use crate::object::{Catalog, ResourceType};

/// The outcome of one discovery.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// Every type that is served, through every version, watchable or not.
    pub catalog: Arc<Catalog>,
    /// The types that can be collected: their verbs include delete, list and watch.
    /// Ordered by group and resource. Ignored types are the caller's to leave out.
    pub watchable: Vec<Watchable>,
    /// What could not be discovered; what was known of it before is kept.
    pub failures: Vec<GroupFailure>,
}

/// A type that can be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watchable {
    /// The type. The same `Arc` from discovery to discovery while nothing changes.
    pub resource: Arc<ResourceType>,
    /// Served by another API server, or not known not to be: what its watch says
    /// of deletions is no proof.
    pub aggregated: bool,
}

/// A part of the API that could not be discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFailure {
    /// The group; `*` when the list of groups itself could not be read.
    pub group: Box<str>,
    /// The version; `None`: all of the group's.
    pub version: Option<Box<str>>,
    /// The server's words.
    pub error: String,
    /// 401 or 403.
    pub forbidden: bool,
}

impl Api {
    /// Discovers what the server serves (semantics, section 2): in two requests
    /// where it knows aggregated discovery, per group and version otherwise.
    /// Failures are per group version, and what `previous` knew of those is kept.
    ///
    /// # Errors
    ///
    /// Nothing at all could be discovered; keep everything as it is.
    pub async fn discover(&self, previous: Option<&Discovered>) -> Result<Discovered, ApiError> {
        let _ = previous;
        unimplemented!()
    }
}
