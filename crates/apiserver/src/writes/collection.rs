//! Deletes collections: DELETE without a name.

use super::delete::delete_object;
use super::options::DeleteOptions;
use super::write::Write;
use crate::object::Object;
use crate::reads;
use crate::reply::Reply;
use crate::state::Server;
use crate::status::Status;

/// Deletes the objects of a collection, one by one: DELETE.
///
/// # Errors
///
/// The error that Kubernetes would answer.
pub fn delete_collection(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    // Errors in the selection are reported first.
    let (listed, objects) = reads::listed(server, &write.as_read())?;
    let options = DeleteOptions::read(write.call)?;
    for key in objects.iter().map(Object::key) {
        // The list may be older than the store, so an object may be gone.
        if let Some(object) = server.store.get(&write.resource.stored_as, &key).cloned() {
            delete_object(server, write, &key, &object, &options)?;
        }
    }
    Ok(listed)
}
