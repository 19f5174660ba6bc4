//! Delete a collection: DELETE without a name.

use super::Write;
use super::delete::delete_object;
use super::options::DeleteOptions;
use crate::embedded::object::Object;
use crate::embedded::reads::{self, Read};
use crate::embedded::server::{Reply, Server};
use crate::embedded::status::Status;

/// Deletes the objects of a collection, one by one: DELETE.
///
/// # Errors
///
/// What Kubernetes answers when it refuses.
pub fn delete_collection(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    let options = DeleteOptions::read(write.call)?;
    let read = Read { resource: write.resource, path: write.path, call: write.call, now: write.now };
    let listed = reads::list(server, &read)?;
    let objects: Vec<Object> =
        server.store.objects(&write.resource.stored_as).map(|(_, object)| object.clone()).collect();
    for object in objects {
        let key = object.key();
        delete_object(server, write, &key, &object, &options)?;
    }
    Ok(listed)
}
