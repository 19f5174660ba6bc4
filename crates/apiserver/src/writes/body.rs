//! Parses the object in the body of a request.

use serde_json::{Value, json};

use crate::call::Call;
use crate::resources::Resource;
use crate::status::Status;
use crate::writes::{Write, metadata};
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
pub(super) fn read(write: &Write<'_>) -> Result<Value, Status> {
    check_content_type(write.call)?;
    let mut object: Value =
        serde_json::from_slice(&write.call.body).map_err(|error| unreadable(write, &error.to_string()))?;
    if !object.is_object() {
        return Err(unreadable(write, "it is no object"));
    }
    check_type(write, &mut object)?;
    settle(write.resource, &mut object).map_err(|error| unreadable(write, &error))?;
    Ok(object)
}

fn unreadable(write: &Write<'_>, error: &str) -> Status {
    let (kind, version) = (&write.resource.kind, write.path.version);
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
}

/// Checks that the body has the type of the path.
fn check_type(write: &Write<'_>, object: &mut Value) -> Result<(), Status> {
    let expected = write.api_version();
    let text = |field: &str| object[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if write.resource.custom {
        if kind.is_none() {
            return Err(unreadable(write, "unmarshalerDecoder: Object 'Kind' is missing"));
        }
        let Some(api_version) = api_version else {
            let message = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
            let mut status = Status::new(500, "InternalError", format!("Internal error occurred: {message}"));
            status.details = Some(json!({"causes": [{"message": message}]}));
            return Err(status);
        };
        // The kind of a custom resource is checked last.
        return if api_version == expected { Ok(()) } else { Err(other_version(&api_version, &expected)) };
    }
    if kind.as_deref().is_some_and(|kind| *kind != *write.resource.kind) {
        return Err(unreadable(write, "unknown conversion"));
    }
    if let Some(other) = api_version.filter(|given| *given != expected) {
        return Err(other_version(&other, &expected));
    }
    object["kind"] = (*write.resource.kind).into();
    Ok(())
}

fn other_version(given: &str, expected: &str) -> Status {
    Status::bad_request(format!("the API version in the data ({given}) is not the expected one ({expected})"))
}

/// Normalizes an object for storage.
pub(super) fn settle(resource: &Resource, object: &mut Value) -> Result<(), String> {
    metadata::normalize(object)?;
    let stored = reads::api_version(&resource.stored_as.group, &resource.storage_version);
    object["apiVersion"] = stored.into();
    if !resource.custom
        && let Some(fields) = object.as_object_mut()
    {
        for (field, value) in fields.iter_mut() {
            if field != "metadata" {
                drop_nulls(field, value);
            }
        }
        fields.retain(|_, value| !value.is_null());
    }
    Ok(())
}

/// Built-in types have no nulls: a null is an absent field and, in a map of strings, an empty
/// string.
fn drop_nulls(field: &str, value: &mut Value) {
    match value {
        Value::Object(entries) => {
            if is_map_of_texts(field) {
                entries.values_mut().filter(|entry| entry.is_null()).for_each(|entry| *entry = "".into());
            }
            entries.retain(|_, entry| !entry.is_null());
            entries.iter_mut().for_each(|(field, entry)| drop_nulls(field, entry));
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| drop_nulls("", entry)),
        _ => {}
    }
}

fn is_map_of_texts(field: &str) -> bool {
    matches!(
        field,
        "annotations"
            | "binaryData"
            | "data"
            | "labels"
            | "matchLabels"
            | "nodeSelector"
            | "parameters"
            | "stringData"
    )
}

/// Checks that the name in the body, and the namespace if present, match the path.
pub(super) fn check_name(write: &Write<'_>, object: &Value) -> Result<(), Status> {
    let metadata = metadata::of(object);
    let (name, namespace) = (metadata::text(metadata, "name"), metadata::text(metadata, "namespace"));
    let wanted = write.path.name.unwrap_or_default();
    if name.is_empty() {
        let message = format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        );
        return Err(Status::bad_request(message));
    }
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
