//! Deletes objects and collections: DELETE.

use std::collections::BTreeSet;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::call::Request;
use crate::controllers::{definitions, namespaces};
use crate::guards::Operation;
use crate::object::{Key, Object, timestamp};
use crate::reads;
use crate::resources::{ResourceName, begin_deletion};
use crate::server::{Release, Reply, Server};
use crate::status::Status;
use crate::writes::deletion::{Deletion, decide};
use crate::writes::metadata::{self, finalizers};
use crate::writes::options::{DeleteOptions, Policy};
use crate::writes::{admit, is_held, remove, save};

/// Deletes an object, or starts its deletion.
pub fn delete(server: &mut Server, write: &Request<'_>) -> Result<Reply, Status> {
    write.check_accept()?;
    let options = DeleteOptions::read(write.call)?;
    let name = write.path.name.unwrap_or_default();
    let key = write.key(name);
    let of = &write.resource.stored_as;
    if *of == namespaces() {
        check_mortal(name)?;
    }
    let Some(object) = server.store.get(of, &key).cloned() else {
        return Err(Status::not_found(&write.asked(), name));
    };
    let deleted = if *of == namespaces() {
        let begun = || begin_namespace_deletion(object.value(), &options, write.now);
        delete_in_steps(server, write, &key, &object, &options, begun)
    } else if *of == definitions() {
        delete_in_steps(server, write, &key, &object, &options, || begin_deletion(&object, write.now))
    } else {
        delete_object(server, write, &key, &object, &options)
    };
    answer(write, &object, &options, deleted?)
}

/// The result of a deletion.
pub(super) enum Deleted {
    /// The object still exists, in this state.
    Not(Object),
    /// The object is gone. Its last state, if the answer contains it.
    Gone(Option<Object>),
}

fn answer(
    write: &Request<'_>,
    object: &Object,
    options: &DeleteOptions,
    deleted: Deleted,
) -> Result<Reply, Status> {
    let (code, shown) = match deleted {
        // 202, accepted and not done: the object is kept although `orphanDependents: false`
        // requests an immediate deletion.
        Deleted::Not(object) if options.orphan_dependents == Some(false) => (202, Some(object)),
        Deleted::Not(object) => (200, Some(object)),
        Deleted::Gone(last) => (200, last),
    };
    match shown {
        Some(object) => write.reply(code, &object),
        None => Ok(Reply::json(code, &success(write, object))),
    }
}

fn success(write: &Request<'_>, object: &Object) -> Value {
    let asked = write.asked();
    let mut details = json!({"name": object.name(), "kind": &*asked.plural, "uid": object.uid()});
    if !asked.group.is_empty() {
        details["group"] = (*asked.group).into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Deletes an object by the rules of most types.
pub(super) fn delete_object(
    server: &mut Server,
    write: &Request<'_>,
    key: &Key,
    object: &Object,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let kind = ResourceName::new(&write.resource.name.group, &write.resource.kind);
    check_preconditions(&kind, object, options)?;
    let deletion = decide(object.value(), options, write.resource, write.now);
    if !matches!(deletion, Deletion::Pending) {
        admit(server, write, Operation::Delete, object, None)?;
    }
    match deletion {
        Deletion::Pending if write.resource.returns_deleted => Ok(Deleted::Not(object.clone())),
        Deletion::Pending => Ok(Deleted::Gone(None)),
        Deletion::Kept(new) => Ok(Deleted::Not(write_or_try(server, write, key, new, options))),
        Deletion::Freed(new) if options.dry_run => Ok(Deleted::Gone(Some(Object::new(new)))),
        Deletion::Freed(_) => {
            check_freed(write, object, options)?;
            Ok(gone(server, write, key, object.clone()))
        }
        Deletion::Removed(new) => {
            let changed = new.is_some();
            let last = match new {
                Some(new) => write_or_try(server, write, key, new, options),
                None => object.clone(),
            };
            if options.dry_run {
                let shown = changed || write.resource.returns_deleted;
                return Ok(Deleted::Gone(shown.then_some(last)));
            }
            Ok(gone(server, write, key, last))
        }
    }
}

/// Removes an object with this last state.
fn gone(server: &mut Server, write: &Request<'_>, key: &Key, last: Object) -> Deleted {
    let removed = remove(server, write, key);
    // Only later releases report the version of the removal.
    let last = removed.filter(|_| server.settings.release > Release::V1_20).unwrap_or(last);
    Deleted::Gone(write.resource.returns_deleted.then_some(last))
}

/// A precondition on the resource version always fails if the DELETE itself removes the last
/// finalizer: a real server compares it with the state without the finalizer, which is never stored
/// and has no version.
fn check_freed(write: &Request<'_>, object: &Object, options: &DeleteOptions) -> Result<(), Status> {
    if options.preconditions.as_ref().is_none_or(|wanted| wanted.resource_version.is_none()) {
        return Ok(());
    }
    let why = "precondition failed: the object lost its last finalizer with this request";
    Err(Status::conflict(&write.asked(), object.name(), why))
}

fn write_or_try(
    server: &mut Server,
    write: &Request<'_>,
    key: &Key,
    new: Value,
    options: &DeleteOptions,
) -> Object {
    if options.dry_run { Object::new(new) } else { save(server, write, key, new) }
}

/// Checks the preconditions. `named` is what the conflict calls the type.
fn check_preconditions(named: &ResourceName, object: &Object, options: &DeleteOptions) -> Result<(), Status> {
    let Some(preconditions) = &options.preconditions else { return Ok(()) };
    let version = object.resource_version().to_string();
    let conditions = [
        ("UID", &preconditions.uid, object.uid()),
        ("ResourceVersion", &preconditions.resource_version, version.as_str()),
    ];
    for (what, wanted, found) in conditions {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) {
            let why = format!("precondition failed: the {what} is {found}, not {wanted}");
            return Err(Status::conflict(named, object.name(), &why));
        }
    }
    Ok(())
}

/// Deletes a namespace or a definition: the first DELETE only begins it, with this state. What holds a
/// namespace then keeps it, whatever its finalizers are.
fn delete_in_steps(
    server: &mut Server,
    write: &Request<'_>,
    key: &Key,
    object: &Object,
    options: &DeleteOptions,
    begun: impl FnOnce() -> Value,
) -> Result<Deleted, Status> {
    check_preconditions(&write.asked(), object, options)?;
    if object.deletion_timestamp().is_none() {
        admit(server, write, Operation::Delete, object, None)?;
        return Ok(Deleted::Not(write_or_try(server, write, key, begun(), options)));
    }
    if is_held(object.value()) {
        return Ok(Deleted::Not(object.clone()));
    }
    delete_object(server, write, key, object, options)
}

/// Deletes the objects of a collection, one by one: DELETE.
pub fn delete_collection(server: &mut Server, write: &Request<'_>) -> Result<Reply, Status> {
    // Errors in the selection are reported first.
    let (listed, objects) = reads::listed(server, write)?;
    let options = DeleteOptions::read(write.call)?;
    for key in objects.iter().map(Object::key) {
        // The list may be older than the store, so an object may be gone.
        if let Some(object) = server.store.get(&write.resource.stored_as, &key).cloned() {
            delete_object(server, write, &key, &object, &options)?;
        }
    }
    Ok(listed)
}

/// The namespaces that cannot be deleted.
const IMMORTAL: &[&str] = &["default", "kube-public", "kube-system"];

/// Rejects the deletion of a namespace that every cluster needs.
fn check_mortal(name: &str) -> Result<(), Status> {
    if IMMORTAL.contains(&name) {
        return Err(Status::forbidden(&namespaces(), name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// The effect of the first DELETE. Only this one can add a finalizer.
fn begin_namespace_deletion(namespace: &Value, options: &DeleteOptions, now: SystemTime) -> Value {
    let mut new = namespace.clone();
    if !new["status"].is_object() {
        new["status"] = json!({});
    }
    new["status"]["phase"] = "Terminating".into();
    let fields = metadata::of_mut(&mut new);
    fields.insert("deletionTimestamp".to_owned(), timestamp(now).into());
    let has = |one: &str| finalizers(fields).any(|finalizer| finalizer == one);
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation_policy) {
        // Unlike for other types, "do not orphan" means foreground here.
        (Some(orphan), _) => (orphan, !orphan),
        (None, Some(policy)) => (policy == Policy::Orphan, policy == Policy::Foreground),
        (None, None) => (has("orphan"), has("foregroundDeletion")),
    };
    if has("orphan") == orphan && has("foregroundDeletion") == foreground {
        return new;
    }
    let policies = [("orphan", orphan), ("foregroundDeletion", foreground)];
    let kept = finalizers(fields).filter(|one| !matches!(*one, "orphan" | "foregroundDeletion"));
    let added = policies.iter().filter(|(_, wanted)| *wanted).map(|(finalizer, _)| *finalizer);
    // A change removes duplicates.
    let wanted: BTreeSet<String> = kept.chain(added).map(str::to_owned).collect();
    metadata::set_finalizers(fields, wanted.iter().map(String::as_str).collect());
    new
}
