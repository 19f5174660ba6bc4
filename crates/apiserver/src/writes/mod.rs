//! Create, update, patch and delete: the rules of metadata.

mod body;
mod create;
mod delete;
mod deletion;
mod metadata;
mod options;
mod strategic;
mod strategy;
mod update;
mod validation;

use std::sync::Arc;

use serde_json::Value;

use crate::call::Request;
use crate::controllers::namespaces;
use crate::guards::{Operation, Review};
use crate::object::{Key, Object};
use crate::reads::{Form, api_version, reply_object};
use crate::resources::ResourceName;
use crate::server::{Reply, Server};
use crate::status::Status;
use crate::store::Cause;

pub use create::create;
pub use delete::{delete, delete_collection};
pub use update::{patch, update};
pub(crate) use validation::{is_label_value, is_qualified_name};

impl Request<'_> {
    /// The group and plural of the path.
    fn asked(&self) -> ResourceName {
        ResourceName::new(self.path.group, self.path.plural)
    }

    /// The kind in error messages.
    fn kind(&self, object: &Value) -> ResourceName {
        let kind = object["kind"].as_str().unwrap_or(&self.resource.kind);
        ResourceName::new(&self.resource.stored_as.group, kind)
    }

    /// The key of an object with this name.
    fn key(&self, name: &str) -> Key {
        Key::new(self.path.namespace, name)
    }

    /// The `apiVersion` of objects in the version of the path.
    fn api_version(&self) -> String {
        api_version(self.path.group, self.path.version)
    }

    /// Checks that the namespace of the body is that of the path, or absent.
    fn check_namespace(&self, object: &mut Value) -> Result<(), Status> {
        let fields = metadata::of_mut(object);
        let given = metadata::text(fields, "namespace");
        match self.path.namespace {
            None => {
                fields.remove("namespace");
            }
            Some(namespace) if given.is_empty() || given == namespace => {
                fields.insert("namespace".to_owned(), namespace.into());
            }
            Some(_) => {
                let message =
                    "the namespace of the provided object does not match the namespace sent on the request";
                return Err(Status::bad_request(message));
            }
        }
        Ok(())
    }

    /// An answer with an object.
    fn reply(&self, code: u16, object: &Object) -> Result<Reply, Status> {
        reply_object(code, object, self)
    }

    /// Rejects a request without an acceptable form of the answer.
    fn check_accept(&self) -> Result<(), Status> {
        Form::wanted(&self.call.accept).map(drop)
    }

    /// The cause, for the history.
    fn cause(&self) -> Arc<Cause> {
        let query: Vec<String> =
            self.call.query.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        Arc::new(Cause {
            request: self.begun.number,
            user_agent: self.call.user_agent.clone(),
            method: self.call.method.to_string(),
            path: format!("{}{mark}{}", self.call.path, query.join("&")),
            body: serde_json::from_slice(&self.call.body).unwrap_or_default(),
        })
    }
}

/// Calls the admission function, if there is one and it has not answered yet. Returns the state that
/// it wants to be written, if it wants another. The server's own writes are exempt.
fn admit(
    server: &mut Server,
    write: &Request<'_>,
    operation: Operation,
    object: &Object,
    new: Option<&Value>,
) -> Result<Option<Value>, Status> {
    if write.begun.number == 0 {
        return Ok(None);
    }
    if let Some(answer) = write.begun.answer(object) {
        return answer;
    }
    let subresource = write.path.subresource;
    server.guards.admit(&Review { operation, resource: write.asked(), subresource, object, new })
}

fn save(server: &mut Server, write: &Request<'_>, key: &Key, value: Value) -> Object {
    server.store.write(&write.resource.stored_as, key, value, &write.cause())
}

/// Removes an object. Returns its last state with the version of the removal.
fn remove(server: &mut Server, write: &Request<'_>, key: &Key) -> Option<Object> {
    server.store.remove(&write.resource.stored_as, key, &write.cause())
}

/// The namespace of a write; `None` if it is not in one.
fn namespace_of<'a>(server: &'a Server, write: &Request<'_>) -> Result<Option<&'a Object>, Status> {
    let Some(name) = write.path.namespace else { return Ok(None) };
    let found = server.store.get(&namespaces(), &Key::new(None, name));
    found.map(Some).ok_or_else(|| Status::not_found(&namespaces(), name))
}

/// Whether `spec.finalizers` is not empty.
fn is_held(namespace: &Value) -> bool {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    list.is_some_and(|finalizers| !finalizers.is_empty())
}
