//! Namespaces: there must be one to write in, and a deleted one stays as `Terminating`
//! until it is finalized.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::Write;
use super::metadata::{self, finalizers};
use super::options::{DeleteOptions, Policy};
use crate::object::{Key, Object};
use crate::resources::ResourceName;
use crate::server::Server;
use crate::status::Status;
use crate::time::timestamp;

/// Those that stay for ever.
const IMMORTAL: &[&str] = &["default", "kube-public", "kube-system"];

/// Refuses the deletion of a namespace without which there is no cluster.
///
/// # Errors
///
/// 403.
pub(super) fn check(name: &str) -> Result<(), Status> {
    if IMMORTAL.contains(&name) {
        let namespaces = ResourceName::new("", "namespaces");
        return Err(Status::forbidden(&namespaces, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// The namespace that a write is in; none if it is in none.
///
/// # Errors
///
/// 404 if it is gone, although things may be left in it.
pub(super) fn of<'a>(server: &'a Server, write: &Write<'_>) -> Result<Option<&'a Object>, Status> {
    let Some(name) = write.path.namespace else { return Ok(None) };
    let namespaces = ResourceName::new("", "namespaces");
    let found = server.store.get(&namespaces, &Key::new(None, name));
    found.map(Some).ok_or_else(|| Status::not_found(&namespaces, name))
}

/// Whether `spec.finalizers` holds it.
pub(super) fn is_held(namespace: &Value) -> bool {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    list.is_some_and(|finalizers| !finalizers.is_empty())
}

/// What the first DELETE makes of it. Only this one can ask for a finalizer.
pub(super) fn begin(namespace: &Value, options: &DeleteOptions, now: SystemTime) -> Value {
    let mut new = namespace.clone();
    if !new["status"].is_object() {
        new["status"] = json!({});
    }
    new["status"]["phase"] = "Terminating".into();
    let fields = metadata::of_mut(&mut new);
    fields.insert("deletionTimestamp".to_owned(), timestamp(now).into());
    let has = |one: &str| finalizers(fields).any(|finalizer| finalizer == one);
    let (orphan, foreground) = match (options.orphan_dependents, options.policy) {
        // Unlike everywhere else, "do not orphan" is foreground here.
        (Some(orphan), _) => (orphan, !orphan),
        (None, Some(policy)) => (policy == Policy::Orphan, policy == Policy::Foreground),
        (None, None) => (has("orphan"), has("foregroundDeletion")),
    };
    if has("orphan") == orphan && has("foregroundDeletion") == foreground {
        return new;
    }
    // They are a set, once they are changed.
    let mut wanted: Vec<String> = Vec::new();
    for finalizer in finalizers(fields) {
        if !wanted.iter().any(|known| known == finalizer) {
            wanted.push(finalizer.to_owned());
        }
    }
    for (finalizer, is_wanted) in [("orphan", orphan), ("foregroundDeletion", foreground)] {
        if !is_wanted {
            wanted.retain(|one| one != finalizer);
        } else if !has(finalizer) {
            wanted.push(finalizer.to_owned());
        }
    }
    metadata::set_finalizers(fields, wanted.iter().map(String::as_str).collect());
    new
}
