//! Get, list and watch, and the form in which objects are shown.

use std::sync::Arc;
use std::time::SystemTime;

use super::call::{Call, ObjectPath, no_such_path};
use super::resources::{Resource, ResourceName};
use super::server::{Reply, Server};
use super::status::Status;

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
    let _ = (server, read);
    Err(no_such_path())
}

/// Shows the objects of a collection.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn list(server: &Server, read: &Read<'_>) -> Result<Reply, Status> {
    let _ = (server, read);
    Err(no_such_path())
}

/// Begins to show how a collection changes.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn watch(server: &Server, read: &Read<'_>) -> Result<Watch, Status> {
    let _ = (server, read);
    Err(no_such_path())
}

/// A watch: where it stands in the history, and what it shows. It holds nothing
/// else, so a slow reader costs nothing.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The type.
    pub resource: ResourceName,
    /// Changes up to this version were shown.
    pub shown: u64,
}
