//! Get, list and watch, and the forms of objects in answers.
//!
//! There are two views of the state: the newest one, and that of the watch cache, which can lag
//! behind ([`Store::freeze`]). As on a real server, the `resourceVersion` of a request selects the
//! view.

mod accept;
mod columns;
mod fields;
mod labels;
mod list;
mod options;
mod show;
pub mod table;
#[cfg(test)]
mod tests;
mod token;
mod watch;

use std::sync::Arc;
use std::time::SystemTime;

pub use self::accept::{Form, Meta};
pub use self::fields::Fields;
pub use self::labels::Labels;
pub use self::show::{api_version, reply_object};
pub use self::watch::{Pull, Watch};

use self::options::Asked;
use super::call::{Call, ObjectPath};
use super::object::Object;
use super::reply::Reply;
use super::resources::Resource;
use super::settings::{Release, Settings};
use super::state::Server;
use super::status::Status;
use super::store::{Past, Store};

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

/// Answers with one object.
///
/// # Errors
///
/// The error that Kubernetes would answer.
pub fn get(server: &Server, read: &Read<'_>) -> Result<Reply, Status> {
    list::get(&View::new(server, read), read)
}

/// Answers with the objects of a collection, or a page of them.
///
/// # Errors
///
/// The error that Kubernetes would answer.
pub fn list(server: &Server, read: &Read<'_>) -> Result<Reply, Status> {
    list::list(&View::new(server, read), read).map(|(reply, _)| reply)
}

/// The answer to a list, with the selected objects.
///
/// # Errors
///
/// The error that Kubernetes would answer.
pub fn listed(server: &Server, read: &Read<'_>) -> Result<(Reply, Vec<Object>), Status> {
    let (reply, objects) = list::list(&View::new(server, read), read)?;
    Ok((reply, objects.into_iter().cloned().collect()))
}

/// Starts a watch of a collection.
///
/// # Errors
///
/// The error that Kubernetes would answer.
pub fn watch(server: &Server, read: &Read<'_>) -> Result<Watch, Status> {
    Watch::begin(&View::new(server, read), read)
}

/// The objects of one type.
#[derive(Clone, Copy)]
struct View<'a> {
    store: &'a Store,
    settings: &'a Settings,
    resource: &'a Resource,
}

/// The content of the watch cache of a type.
#[derive(Clone, Copy)]
struct Cached {
    /// The version of the state that is read.
    version: u64,
    /// The version that the cache reports.
    shown: u64,
}

impl<'a> View<'a> {
    fn new(server: &'a Server, read: &Read<'a>) -> Self {
        Self { store: &server.store, settings: &server.settings, resource: read.resource }
    }

    /// The current watch cache. In 1.20, it knows only the versions of its own type.
    fn cache(&self) -> Cached {
        let cached = self.store.cached(&self.resource.stored_as);
        let shown = match self.settings.release {
            Release::V1_20 => cached.last.max(1),
            Release::V1_36 => cached.version,
        };
        Cached { version: cached.version, shown }
    }

    /// The cache, if it has reached the requested version.
    fn cached(&self, asked: Asked) -> Result<Cached, Status> {
        let cached = self.cache();
        let least = match asked {
            Asked::Any => 0,
            Asked::Newest => self.store.head(),
            Asked::Version(version) => version,
        };
        if least > cached.shown { Err(list::too_large(least, cached.shown, true)) } else { Ok(cached) }
    }

    fn past(&self, version: u64) -> Result<Past<'a>, Status> {
        self.store.at(&self.resource.stored_as, version).map_err(|_| list::expired(None))
    }
}
