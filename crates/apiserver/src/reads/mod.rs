//! Get, list and watch, and the form in which objects are shown.
//!
//! There are two views of the state: the newest, and that of the watch cache,
//! which can lag behind ([`Store::freeze`]). What a request gets depends on its
//! `resourceVersion`, as on a real server.

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
use super::resources::Resource;
use super::server::{Reply, Server};
use super::settings::{Release, Settings};
use super::status::Status;
use super::store::{Past, Store};

/// A request to read something, with all that it depends on besides the objects.
///
/// The dispatch has made sure that the type is served in this version, knows the
/// verb, has the subresource, and is namespaced if the path is.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The type.
    pub resource: &'a Arc<Resource>,
    /// The object, or the objects; answers are in its version.
    pub path: ObjectPath<'a>,
    /// The request.
    pub call: &'a Call,
    /// When it is served.
    pub now: SystemTime,
}

/// Shows one object.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn get(server: &Server, read: &Read<'_>) -> Result<Reply, Status> {
    list::get(&View::new(server, read), read)
}

/// Shows the objects of a collection, or a page of them.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn list(server: &Server, read: &Read<'_>) -> Result<Reply, Status> {
    list::list(&View::new(server, read), read).map(|(reply, _)| reply)
}

/// What a list would answer, and the objects in it.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn listed(server: &Server, read: &Read<'_>) -> Result<(Reply, Vec<Object>), Status> {
    let (reply, objects) = list::list(&View::new(server, read), read)?;
    Ok((reply, objects.into_iter().cloned().collect()))
}

/// Begins to show how a collection changes.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn watch(server: &Server, read: &Read<'_>) -> Result<Watch, Status> {
    Watch::begin(&View::new(server, read), read)
}

/// The objects of one type, as this server shows them.
#[derive(Clone, Copy)]
struct View<'a> {
    store: &'a Store,
    settings: &'a Settings,
    resource: &'a Resource,
}

/// What the watch cache of a type has to offer.
#[derive(Clone, Copy)]
struct Cached {
    /// The version that is looked at.
    version: u64,
    /// The version that it says it has.
    shown: u64,
}

impl<'a> View<'a> {
    fn new(server: &'a Server, read: &Read<'a>) -> Self {
        Self { store: &server.store, settings: &server.settings, resource: read.resource }
    }

    /// The watch cache as it is. That of 1.20 knows of no versions but those of its
    /// own type.
    fn cache(&self) -> Cached {
        let cached = self.store.cached(&self.resource.stored_as);
        let shown = match self.settings.release {
            Release::V1_20 => cached.last.max(1),
            Release::V1_36 => cached.version,
        };
        Cached { version: cached.version, shown }
    }

    /// The cache, if it has come as far as is asked.
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
