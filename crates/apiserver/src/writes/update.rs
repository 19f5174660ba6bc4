//! Updates objects: PUT and PATCH.

use serde_json::{Map, Value};

use crate::call::Request;
use crate::controllers::namespaces;
use crate::guards::Operation;
use crate::object::{Key, Object};
use crate::resources::ResourceName;
use crate::server::{Release, Reply, Server};
use crate::status::{FieldError, Status};
use crate::writes::strategy::Strategy;
use crate::writes::{
    admit, body, is_held, metadata, namespace_of, options, remove, save, strategic, validation,
};

/// The message of a conflict.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Replaces an object, its status, or a namespace's `finalize`: PUT.
pub fn update(server: &mut Server, write: &Request<'_>) -> Result<Reply, Status> {
    write.check_accept()?;
    let dry_run = options::dry_run(write.call, "UpdateOptions")?;
    let object = body::read(write)?;
    body::check_name(write, &object)?;
    let name = write.path.name.unwrap_or_default();
    let key = write.key(name);
    let old = server.store.get(&write.resource.stored_as, &key).cloned();
    check_uid(write, &key, &object, old.as_ref())?;
    let old = old.ok_or_else(|| Status::not_found(&write.asked(), name))?;
    replace(server, write, &old, object, dry_run)
}

/// The uid in the body is a precondition, except for an object that does not exist.
fn check_uid(write: &Request<'_>, key: &Key, object: &Value, old: Option<&Object>) -> Result<(), Status> {
    let wanted = metadata::text(metadata::of(object), "uid");
    let found = old.map(Object::uid).unwrap_or_default();
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let why = format!("precondition failed: the UID is {found:?}, not {wanted}");
    Err(Status::conflict(&write.asked(), &key.name, &why))
}

/// Stores the new state, or removes the object if nothing else keeps it.
pub(super) fn replace(
    server: &mut Server,
    write: &Request<'_>,
    old: &Object,
    mut new: Value,
    dry_run: bool,
) -> Result<Reply, Status> {
    namespace_of(server, write)?;
    let strategy = Strategy::of(write.resource, server.settings.release);
    check_version(write, &strategy, old, &mut new)?;
    settle(write, &strategy, old, &mut new)?;
    if let Some(wanted) = admit(server, write, Operation::Update, old, Some(&new))? {
        new = wanted;
        body::settle(write.resource, &mut new).map_err(Status::unnamed)?;
        settle(write, &strategy, old, &mut new)?;
    }
    let key = old.key();
    if waits_for_nothing(write, old.value(), &new) {
        if !dry_run {
            remove(server, write, &key);
        }
        return write.reply(200, &Object::new(new));
    }
    let changed = if dry_run { Object::new(new) } else { save(server, write, &key, new) };
    write.reply(200, &changed)
}

/// Restores what the client must not change, and rejects a state that is not valid.
fn settle(write: &Request<'_>, strategy: &Strategy, old: &Object, new: &mut Value) -> Result<(), Status> {
    prepare(write, strategy, old.value(), new)?;
    let errors = validation::of_changed(new, old.value(), strategy);
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&write.kind(new), old.name(), &errors)) }
}

/// The resource version in the body is a precondition.
fn check_version(
    write: &Request<'_>,
    strategy: &Strategy,
    old: &Object,
    new: &mut Value,
) -> Result<(), Status> {
    let wanted = wanted_version(new)?;
    if wanted == 0 && !strategy.unconditional {
        let fault = FieldError::invalid("metadata.resourceVersion", "must be specified for an update");
        return Err(Status::invalid(&write.asked(), old.name(), &[fault]));
    }
    if wanted != 0 && wanted != old.resource_version() {
        return Err(Status::conflict(&write.asked(), old.name(), MODIFIED));
    }
    let version = old.resource_version().to_string();
    metadata::of_mut(new).insert("resourceVersion".to_owned(), version.into());
    Ok(())
}

/// The resource version in a body; 0 if absent.
fn wanted_version(object: &Value) -> Result<u64, Status> {
    match metadata::text(metadata::of(object), "resourceVersion") {
        "" => Ok(0),
        text => text
            .parse()
            .map_err(|_| Status::unnamed(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))),
    }
}

/// Restores fields that a client must not change or may omit.
fn prepare(write: &Request<'_>, strategy: &Strategy, old: &Value, new: &mut Value) -> Result<(), Status> {
    write.check_namespace(new)?;
    metadata::copy(metadata::of_mut(new), metadata::of(old), "generation");
    strategy.prepare_changed(write.resource, write.path.subresource, new, old);
    let (old, new) = (metadata::of(old), metadata::of_mut(new));
    if metadata::text(new, "uid").is_empty() {
        metadata::copy(new, old, "uid");
    }
    metadata::copy(new, old, "creationTimestamp");
    // `/status` may have restored the old one.
    metadata::copy(new, old, "resourceVersion");
    if !metadata::text(old, "deletionTimestamp").is_empty() {
        metadata::copy(new, old, "deletionTimestamp");
    }
    if metadata::number(new, "deletionGracePeriodSeconds").is_none() {
        metadata::copy(new, old, "deletionGracePeriodSeconds");
    }
    Ok(())
}

/// Whether an object that is being deleted has lost its last finalizer and has no grace period
/// left.
fn waits_for_nothing(write: &Request<'_>, old: &Value, new: &Value) -> bool {
    let fields = metadata::of(old);
    let ending = !metadata::text(fields, "deletionTimestamp").is_empty();
    let grace = metadata::number(fields, "deletionGracePeriodSeconds").unwrap_or_default();
    let free = metadata::finalizers(metadata::of(new)).next().is_none();
    let held = write.resource.stored_as == namespaces() && is_held(new);
    ending && grace == 0 && free && !held
}

/// Patches an object or its status.
pub fn patch(server: &mut Server, write: &Request<'_>) -> Result<Reply, Status> {
    if write.call.content_type == "application/apply-patch+yaml" {
        // A real server supports it. The message names this server, so that a reader knows what is
        // missing.
        let message = "the embedded API server does not know server-side apply: send a JSON patch or a merge \
                       patch (kubectl: apply without --server-side)";
        return Err(Status::new(415, "UnsupportedMediaType", message));
    }
    write.check_accept()?;
    let dry_run = options::dry_run(write.call, "PatchOptions")?;
    let name = write.path.name.unwrap_or_default();
    let Some(old) = server.store.get(&write.resource.stored_as, &write.key(name)).cloned() else {
        return Err(Status::not_found(&write.asked(), name));
    };
    // A patch refers to the object in the version of the path, and must not change its type.
    let mut new = old.to_value();
    new["apiVersion"] = write.api_version().into();
    apply(write, &mut new, server.settings.release)?;
    let unreadable =
        |error: &str| Status::invalid(&ResourceName::new("", ""), "", &[FieldError::invalid("patch", error)]);
    if new["apiVersion"] != *write.api_version() || new["kind"] != *write.resource.kind {
        return Err(unreadable("it changes the type of the object"));
    }
    body::settle(write.resource, &mut new).map_err(|error| unreadable(&error))?;
    body::check_name(write, &new)?;
    replace(server, write, &old, new, dry_run)
}

/// Applies the patch of a request.
fn apply(write: &Request<'_>, object: &mut Value, release: Release) -> Result<(), Status> {
    let body = &write.call.body;
    let malformed = |error: serde_json::Error| Status::bad_request(error.to_string());
    match &*write.call.content_type {
        "application/json-patch+json" => {
            let patch: json_patch::Patch = serde_json::from_slice(body).map_err(malformed)?;
            let message = "the server rejected our request due to an error in our request";
            json_patch::patch(object, &patch).map_err(|_| Status::new(422, "Invalid", message))
        }
        "application/merge-patch+json" => {
            let patch: Map<String, Value> = serde_json::from_slice(body).map_err(malformed)?;
            json_patch::merge(object, &patch.into());
            Ok(())
        }
        "application/strategic-merge-patch+json" if !write.resource.custom => {
            let patch: Map<String, Value> = serde_json::from_slice(body).map_err(malformed)?;
            strategic::merge(object, patch, "", release == Release::V1_20).map_err(Status::unnamed)
        }
        _ => Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
    }
}
