//! Get, list and watch, and the form in which objects are shown.
//!
//! There are two views of the state: the newest, and that of the watch cache,
//! which can lag behind ([`Store::freeze`](super::store::Store::freeze)). What a
//! request gets depends on its `resourceVersion`, as on a real server.

mod accept;
mod fields;
mod labels;
mod list;
mod options;
mod show;
mod table;
#[cfg(test)]
mod tests;
mod token;
mod watch;

use std::time::SystemTime;

pub use self::accept::Form;
pub use self::fields::Fields;
pub use self::labels::Labels;
pub use self::show::{api_version, reply_object};
pub use self::watch::{Pull, Watch};

use self::options::Asked;
use super::call::{Call, ObjectPath};
use super::resources::Resource;
use super::server::{Answer, Server};
use super::settings::{Release, Settings};
use super::status::Status;
use super::store::{Past, Store};

/// Answers a GET of an object, or of objects of a type, whole or as a watch.
#[must_use]
pub fn read(
    server: &Server,
    resource: &Resource,
    path: &ObjectPath<'_>,
    call: &Call,
    now: SystemTime,
) -> Answer {
    let read = Read { store: &server.store, settings: &server.settings, resource, path, call };
    let answer = match path.name {
        Some(name) => list::get(&read, name).map(Answer::Whole),
        None if call.flag("watch") => Watch::begin(&read, now).map(Answer::Watch),
        None => list::list(&read).map(Answer::Whole),
    };
    answer.unwrap_or_else(|status| Answer::Whole(status.into()))
}

/// What a read has to do with.
struct Read<'a> {
    store: &'a Store,
    settings: &'a Settings,
    resource: &'a Resource,
    path: &'a ObjectPath<'a>,
    call: &'a Call,
}

/// What the watch cache has to offer.
struct CacheView {
    /// The version that is looked at.
    version: u64,
    /// The version that it says it has.
    shown: u64,
}

impl CacheView {
    /// The cache of 1.20 knows of no versions but those of its own type.
    fn of(store: &Store, settings: &Settings, resource: &Resource) -> Self {
        let cached = store.cached(&resource.name);
        let shown = match settings.release {
            Release::V1_20 => cached.last.max(1),
            Release::V1_36 => cached.version,
        };
        Self { version: cached.version, shown }
    }
}

impl<'a> Read<'a> {
    /// The cache, if it has come as far as is asked.
    fn cached(&self, asked: Asked) -> Result<CacheView, Status> {
        let cached = CacheView::of(self.store, self.settings, self.resource);
        let least = match asked {
            Asked::Any => 0,
            Asked::Newest => self.store.head(),
            Asked::Version(version) => version,
        };
        if least > cached.shown { Err(list::too_large(least, cached.shown, true)) } else { Ok(cached) }
    }

    fn past(&self, version: u64) -> Result<Past<'a>, Status> {
        let past = self.store.at(&self.resource.name, version);
        past.map_err(|_| Status::new(410, "Expired", "The resourceVersion for the provided list is too old."))
    }
}
