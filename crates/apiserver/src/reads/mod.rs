//! Get, list and watch, and the forms of objects in answers.
//!
//! There are two views of the state: the newest one, and that of the watch cache, which can lag
//! behind ([`Store::freeze`](super::store::Store::freeze)). As on a real server, the
//! `resourceVersion` of a request selects the view.

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
mod view;
mod watch;

pub use self::accept::{Form, Meta};
pub use self::fields::Fields;
pub use self::labels::Labels;
pub use self::show::{api_version, reply_object};
pub use self::view::Read;
pub use self::watch::{Pull, Watch};

use self::view::View;
use super::object::Object;
use super::reply::Reply;
use super::state::Server;
use super::status::Status;

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
