//! A read request, and the view of the state that it selects.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::options::RequestedVersion;
use super::token::Token;
use crate::call::{Call, ObjectPath};
use crate::resources::Resource;
use crate::settings::{Release, Settings};
use crate::state::Server;
use crate::status::Status;
use crate::store::{Past, Store};

/// A request to read objects, with everything that it depends on besides the objects.
///
/// The dispatcher has checked that the type is served in this version, has the verb and the
/// subresource, and that the path has a namespace if the type needs one.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The type.
    pub resource: &'a Arc<Resource>,
    /// The target. Answers use its version.
    pub path: ObjectPath<'a>,
    /// The request.
    pub call: &'a Call,
    /// The time of the request.
    pub now: SystemTime,
}

/// The objects of one type.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) store: &'a Store,
    pub(super) settings: &'a Settings,
    pub(super) resource: &'a Resource,
}

/// The content of the watch cache of a type.
#[derive(Clone, Copy)]
pub(super) struct Cached {
    /// The version of the state that is read.
    pub(super) version: u64,
    /// The version that the cache reports.
    pub(super) shown: u64,
}

impl<'a> View<'a> {
    pub(super) fn new(server: &'a Server, read: &Read<'a>) -> Self {
        Self { store: &server.store, settings: &server.settings, resource: read.resource }
    }

    /// The current watch cache. In 1.20, it knows only the versions of its own type.
    pub(super) fn cache(&self) -> Cached {
        let cached = self.store.cached(&self.resource.stored_as);
        let shown = match self.settings.release {
            Release::V1_20 => cached.last.max(1),
            Release::V1_36 => cached.version,
        };
        Cached { version: cached.version, shown }
    }

    /// The cache, if it has reached the requested version.
    pub(super) fn cached(&self, asked: RequestedVersion) -> Result<Cached, Status> {
        let cached = self.cache();
        let least = match asked {
            RequestedVersion::Any => 0,
            RequestedVersion::Newest => self.store.head(),
            RequestedVersion::Version(version) => version,
        };
        if least > cached.shown { Err(too_large(least, cached.shown, true)) } else { Ok(cached) }
    }

    pub(super) fn past(&self, version: u64) -> Result<Past<'a>, Status> {
        self.store.at(&self.resource.stored_as, version).map_err(|_| expired(None))
    }
}

/// The answer to a version, or to a token, that the history no longer has.
pub(super) fn expired(token: Option<Token>) -> Status {
    let Some(token) = token else {
        return Status::new(410, "Expired", "The resourceVersion for the provided list is too old.");
    };
    let mut status = Status::new(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new \
         list without the continue parameter, or use the continue token in this response to retrieve the \
         remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
         that were created, modified, or deleted between the time the first chunk was returned and now may show \
         up in the list.",
    );
    status.metadata = Some(json!({"continue": token.inconsistent().write()}));
    status
}

/// The answer to a future version. Real servers first wait 3 seconds for it.
pub(super) fn too_large(asked: u64, current: u64, retry: bool) -> Status {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let mut status = Status::new(504, "Timeout", message);
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    let mut details: Value = json!({"causes": [cause]});
    if retry {
        details["retryAfterSeconds"] = 1.into();
    }
    status.details = Some(details);
    status
}
