//! Parses the object in the body of a request.

use serde_json::Value;

use crate::call::{Call, Request};
use crate::resources::Resource;
use crate::status::Status;
use crate::writes::metadata;
use crate::{protobuf, reads};

/// Rejects a body that is not JSON.
pub(super) fn check_content_type(call: &Call) -> Result<(), Status> {
    match &*call.content_type {
        "" | "application/json" => Ok(()),
        // A real server accepts these.
        other @ ("application/yaml" | protobuf::MEDIA_TYPE) => {
            let message = format!(
                "the embedded API server does not read {other} here: send application/json \
                 (kubectl: with --dry-run=client -o yaml, piped into kubectl apply -f -)"
            );
            Err(Status::new(415, "UnsupportedMediaType", message))
        }
        _ => Err(Status::new(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Parses the object of a create or an update, in the storage version.
pub(super) fn read(write: &Request<'_>) -> Result<Value, Status> {
    let Call { content_type, body, .. } = write.call;
    let decoded = (content_type == protobuf::MEDIA_TYPE).then(|| protobuf::read(body)).flatten();
    let mut object: Value = match decoded {
        Some(object) => object,
        None => {
            check_content_type(write.call)?;
            serde_json::from_slice(body).map_err(|error| unreadable(write, &error.to_string()))?
        }
    };
    if !object.is_object() {
        return Err(unreadable(write, "it is no object"));
    }
    check_type(write, &mut object)?;
    settle(write.resource, &mut object).map_err(|error| unreadable(write, &error))?;
    Ok(object)
}

fn unreadable(write: &Request<'_>, error: &str) -> Status {
    let (kind, version) = (&write.resource.kind, write.path.version);
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
}

/// Checks that the body has the type of the path.
fn check_type(write: &Request<'_>, object: &mut Value) -> Result<(), Status> {
    let expected = write.api_version();
    let (kind, api_version) = (object["kind"].as_str(), object["apiVersion"].as_str());
    if let Some(other) = api_version.filter(|given| !given.is_empty() && *given != expected) {
        let message = format!("the API version in the data ({other}) is not the expected one ({expected})");
        return Err(Status::bad_request(message));
    }
    if write.resource.custom && (kind.is_none() || api_version.is_none()) {
        return Err(unreadable(write, "Object 'Kind' or 'apiVersion' is missing"));
    }
    if kind.is_some_and(|kind| !kind.is_empty() && *kind != *write.resource.kind) {
        return Err(unreadable(write, "unknown conversion"));
    }
    object["kind"] = (*write.resource.kind).into();
    Ok(())
}

/// Normalizes an object for storage.
pub(super) fn settle(resource: &Resource, object: &mut Value) -> Result<(), String> {
    metadata::normalize(object)?;
    let stored = reads::api_version(&resource.stored_as.group, &resource.storage_version);
    object["apiVersion"] = stored.into();
    Ok(())
}

/// Checks that the name in the body, and the namespace if present, match the path.
pub(super) fn check_name(write: &Request<'_>, object: &Value) -> Result<(), Status> {
    let metadata = metadata::of(object);
    let (name, namespace) = (metadata::text(metadata, "name"), metadata::text(metadata, "namespace"));
    let wanted = write.path.name.unwrap_or_default();
    if name != wanted {
        let message =
            format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
        return Err(Status::bad_request(message));
    }
    match write.path.namespace {
        Some(wanted) if !namespace.is_empty() && namespace != wanted => Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({wanted})"
        ))),
        _ => Ok(()),
    }
}
