//! Get, list and watch, and the forms of objects in answers.
//!
//! There are two views of the state: the newest one, and that of the watch cache, which can lag
//! behind ([`Store::freeze`](crate::store::Store::freeze)). As on a real server, the
//! `resourceVersion` of a request selects the view.

mod list;
mod options;
mod selectors;
mod show;
mod watch;

use serde_json::json;

use crate::reads::list::Token;
use crate::reads::options::RequestedVersion;
use crate::resources::Resource;
use crate::server::{Release, Server};
use crate::status::Status;

pub use list::{get, list, listed};
pub(crate) use show::Offer;
pub use show::{Form, api_version, reply_object};
pub use watch::{Pull, Watch};

/// The content of the watch cache of a type.
#[derive(Clone, Copy)]
struct Cached {
    /// The version of the state that is read.
    version: u64,
    /// The version that the cache reports.
    shown: u64,
}

/// The current watch cache. In 1.20, it knows only the versions of its own type.
fn cache(server: &Server, resource: &Resource) -> Cached {
    let cached = server.store.cached(&resource.stored_as);
    let shown = match server.settings.release {
        Release::V1_20 => cached.last.max(1),
        Release::V1_36 => cached.version,
    };
    Cached { version: cached.version, shown }
}

/// The cache, if it has reached the requested version.
fn cached(server: &Server, resource: &Resource, asked: RequestedVersion) -> Result<Cached, Status> {
    let cached = cache(server, resource);
    let least = match asked {
        RequestedVersion::Any => 0,
        RequestedVersion::Newest => server.store.head(),
        RequestedVersion::Version(version) => version,
    };
    if least > cached.shown { Err(too_large(least, cached.shown)) } else { Ok(cached) }
}

/// The answer to a version, or to a token, that the history no longer has.
fn expired(token: Option<Token>) -> Status {
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
fn too_large(asked: u64, current: u64) -> Status {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let mut status = Status::new(504, "Timeout", message);
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    status.details = Some(json!({"causes": [cause], "retryAfterSeconds": 1}));
    status
}
