//! Namespaces: a write needs an existing one, and a deleted one stays `Terminating` until it is
//! finalized.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::metadata::{self, finalizers};
use super::options::{DeleteOptions, Policy};
use super::write::Write;
use crate::object::{Key, Object};
use crate::resources::ResourceName;
use crate::state::Server;
use crate::status::Status;
use crate::time::timestamp;

/// The namespaces that cannot be deleted.
const IMMORTAL: &[&str] = &["default", "kube-public", "kube-system"];

/// Rejects the deletion of a namespace that every cluster needs.
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

/// The namespace of a write; `None` if it is not in one.
///
/// # Errors
///
/// 404 if the namespace is gone, even if objects are left in it.
pub(super) fn of<'a>(server: &'a Server, write: &Write<'_>) -> Result<Option<&'a Object>, Status> {
    let Some(name) = write.path.namespace else { return Ok(None) };
    let namespaces = ResourceName::new("", "namespaces");
    let found = server.store.get(&namespaces, &Key::new(None, name));
    found.map(Some).ok_or_else(|| Status::not_found(&namespaces, name))
}

/// Whether `spec.finalizers` is not empty.
pub(super) fn is_held(namespace: &Value) -> bool {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    list.is_some_and(|finalizers| !finalizers.is_empty())
}

/// The effect of the first DELETE. Only this one can add a finalizer.
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
        // Unlike for other types, "do not orphan" means foreground here.
        (Some(orphan), _) => (orphan, !orphan),
        (None, Some(policy)) => (policy == Policy::Orphan, policy == Policy::Foreground),
        (None, None) => (has("orphan"), has("foregroundDeletion")),
    };
    if has("orphan") == orphan && has("foregroundDeletion") == foreground {
        return new;
    }
    // Duplicates are removed by any change.
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
