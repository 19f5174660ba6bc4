//! Patches objects: PATCH.

use serde_json::Value;

use super::strategic::{self, Strategic};
use super::update::replace;
use super::write::Write;
use super::{body, json, options};
use crate::reply::Reply;
use crate::resources::ResourceName;
use crate::settings::Release;
use crate::state::Server;
use crate::status::{FieldError, Status};

/// Patches an object or its status.
///
/// # Errors
///
/// The error that Kubernetes would answer.
pub fn patch(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    let kind = Kind::of(write)?;
    write.check_accept()?;
    let dry_run = options::dry_run(write.call, "PatchOptions")?;
    let name = write.path.name.unwrap_or_default();
    let Some(old) = server.store.get(&write.resource.stored_as, &write.key(name)).cloned() else {
        return Err(Status::not_found(&write.asked(), name));
    };
    // A patch refers to the object in the version of the path.
    let mut new = old.to_value();
    new["apiVersion"] = write.api_version().into();
    apply(kind, &mut new, &write.call.body, server.settings.release)?;
    check_type(write, &new)?;
    body::settle(write.resource, &mut new).map_err(|error| unreadable(&new, &error))?;
    body::check_name(write, &new)?;
    replace(server, write, &old, new, dry_run)
}

/// The formats of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Merge,
    Strategic,
}

impl Kind {
    fn of(write: &Write<'_>) -> Result<Self, Status> {
        match &*write.call.content_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !write.resource.custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Err(no_apply()),
            _ => Err(unsupported(write.resource.custom)),
        }
    }
}

/// A real server supports server-side apply. The message names this server, so that a reader knows
/// what is missing.
fn no_apply() -> Status {
    let message = "the embedded API server does not know server-side apply: send a JSON patch or a merge patch \
                   (kubectl: apply without --server-side)";
    Status::new(415, "UnsupportedMediaType", message)
}

fn unsupported(custom: bool) -> Status {
    let name = "UnsupportedMediaType";
    if custom {
        let message = "the body of the request was in an unknown format - accepted media types include: \
                       application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        return Status::new(415, name, message);
    }
    let mut status = Status::new(415, name, "415: Unsupported Media Type");
    status.details = Some(Value::Object(serde_json::Map::new()));
    status
}

fn apply(kind: Kind, object: &mut Value, patch: &[u8], release: Release) -> Result<(), Status> {
    match kind {
        Kind::Json => {
            let patch: Value =
                serde_json::from_slice(patch).map_err(|error| Status::bad_request(error.to_string()))?;
            let Value::Array(operations) = patch else {
                return Err(Status::bad_request("a JSON patch is a list of operations"));
            };
            json::apply(object, operations).map_err(|refusal| match refusal {
                json::Refusal::Rejected(_) => rejected(),
                json::Refusal::TooMany(why) => too_large(&why),
            })
        }
        Kind::Merge => {
            let patch = serde_json::from_slice(patch).ok();
            let Some(patch @ (Value::Object(_) | Value::Array(_))) = patch else {
                return Err(Status::unnamed("Invalid JSON Patch"));
            };
            json_patch::merge(object, &patch);
            Ok(())
        }
        Kind::Strategic => {
            // An empty body is a patch without changes.
            let patch: Option<serde_json::Map<String, Value>> =
                serde_json::from_slice(patch).map_err(|error| Status::bad_request(error.to_string()))?;
            let patch = patch.unwrap_or_default();
            let language = Strategic { drops_directives: release > Release::V1_20 };
            let kept = ["apiVersion", "kind"].map(|field| object[field].clone());
            strategic::merge(language, object, patch).map_err(Status::unnamed)?;
            // The type is not read from the result here.
            let [api_version, kind] = kept;
            object["apiVersion"] = api_version;
            object["kind"] = kind;
            Ok(())
        }
    }
}

fn rejected() -> Status {
    let message = "the server rejected our request due to an error in our request";
    let mut status = Status::new(422, "Invalid", message);
    status.details = Some(Value::Object(serde_json::Map::new()));
    status
}

fn too_large(why: &str) -> Status {
    Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: {why}"))
}

/// Checks that the patch did not change the type of the object.
fn check_type(write: &Write<'_>, new: &Value) -> Result<(), Status> {
    if !new.is_object() {
        return Err(unreadable(new, "couldn't get version/kind"));
    }
    let (api_version, kind) = (new["apiVersion"].as_str(), new["kind"].as_str());
    if api_version != Some(&write.api_version()) {
        return Err(unreadable(new, &format!("no kind is registered for version {api_version:?}")));
    }
    // The kind of a custom resource is checked last.
    if kind != Some(&write.resource.kind) && !(write.resource.custom && kind.is_some()) {
        return Err(unreadable(
            new,
            &format!("converting it to {}: unknown conversion", write.resource.kind),
        ));
    }
    Ok(())
}

/// The error if the result is not an object of the type.
fn unreadable(new: &Value, error: &str) -> Status {
    let fault = FieldError::invalid("patch", &format!("{:?}", new.to_string()), error);
    Status::invalid(&ResourceName::new("", ""), "", &[fault])
}
