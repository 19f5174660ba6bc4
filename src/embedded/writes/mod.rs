//! Create, update, patch and delete: the rules of metadata.

use std::sync::Arc;
use std::time::SystemTime;

use super::call::{Call, ObjectPath};
use super::resources::Resource;
use super::server::{Reply, Server};
use super::status::Status;

/// A request to change something, with all that it depends on besides the objects.
///
/// The dispatch has made sure that the type is served in this version, knows the
/// verb, has the subresource, and is namespaced if and only if the path is.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The type.
    pub resource: &'a Arc<Resource>,
    /// The object, or the objects; answers are in its version.
    pub path: ObjectPath<'a>,
    /// The request.
    pub call: &'a Call,
    /// The request's number, for the cause of the change.
    pub number: u64,
    /// When it is served.
    pub now: SystemTime,
}

/// Creates an object: POST to a collection.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn create(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    let _ = (server, write);
    Err(super::call::no_such_path())
}

/// Replaces an object, its status, or a namespace's `finalize`: PUT.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn update(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    let _ = (server, write);
    Err(super::call::no_such_path())
}

/// Changes an object or its status in part: PATCH.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn patch(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    let _ = (server, write);
    Err(super::call::no_such_path())
}

/// Deletes an object, or begins to: DELETE.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn delete(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    let _ = (server, write);
    Err(super::call::no_such_path())
}

/// Deletes the objects of a collection, one by one: DELETE.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn delete_collection(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    let _ = (server, write);
    Err(super::call::no_such_path())
}
