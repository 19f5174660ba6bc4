//! What requests and answers say: read from the wire, or changed on it.

use bytes::Bytes;
use http::Method;
use kube_gc_apiserver::call::{ObjectPath, Target};
use kube_gc_apiserver::resources::ResourceName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::network::Kind;

/// An error in the form of the API server.
pub fn status(code: u16) -> Value {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": format!("{reason}, says the network"), "code": code,
    })
}

/// The 404 of the object that this path names.
pub fn own_not_found(path: &str) -> Value {
    let mut status = status(404);
    if let Target::Objects(ObjectPath { group, plural, name, .. }) = Target::parse(path) {
        status["details"] = json!({ "group": group, "kind": plural, "name": name });
    }
    status
}

pub fn kind_of(method: &Method, uri: &http::Uri) -> Kind {
    let query = uri.query().unwrap_or_default();
    if *method != Method::GET {
        Kind::Write
    } else if query.contains("sendInitialEvents=true") {
        Kind::Stream
    } else if query.contains("watch=1") {
        Kind::Watch
    } else if query.contains("limit=") || query.contains("resourceVersionMatch=") {
        Kind::List
    } else {
        Kind::Read
    }
}

/// The type in the path of objects. Its plural is empty for other paths.
pub fn resource_of(path: &str) -> ResourceName {
    match Target::parse(path) {
        Target::Objects(ObjectPath { group, plural, .. }) => ResourceName::new(group, plural),
        _ => ResourceName::new("", ""),
    }
}

/// The fields of a list that matter here.
#[derive(Deserialize)]
pub struct List {
    pub metadata: Value,
}

/// The metadata of the objects in a chunk of a watch.
pub fn shown(data: &[u8]) -> Vec<Value> {
    let events = serde_json::Deserializer::from_slice(data).into_iter::<Value>();
    events.flatten().map(|mut event| event["object"]["metadata"].take()).collect()
}

/// The version of a list or an object.
pub fn version(metadata: &Value) -> Option<u64> {
    metadata["resourceVersion"].as_str()?.parse().ok()
}

/// The group that a discovery path is about: `Some(None)` for all groups, `None` for other paths.
pub fn discovered_group(path: &str) -> Option<Option<String>> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["api" | "apis"] => Some(None),
        ["api", _] => Some(Some(String::new())),
        ["apis", group, _] => Some(Some(group.to_owned())),
        _ => None,
    }
}

/// A discovery answer, of a group or of all, without these types. These groups do not answer.
pub fn edited(
    body: &[u8],
    group: Option<&str>,
    omitted: &[(String, String)],
    away: &[String],
) -> Option<Bytes> {
    let mut answer: Value = serde_json::from_slice(body).ok()?;
    let is_shown = |of: &str, plural: &Value| {
        !omitted.iter().any(|(group, omitted)| group == of && plural == omitted.as_str())
    };
    if let Some(group) = group {
        let resources = answer.get_mut("resources")?.as_array_mut()?;
        resources.retain(|resource| is_shown(group, &resource["name"]));
        return Some(answer.to_string().into());
    }
    for item in answer.get_mut("items")?.as_array_mut()? {
        let group = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for version in item["versions"].as_array_mut()? {
            if away.contains(&group) {
                *version = json!({ "version": version["version"], "freshness": "Stale" });
            } else if let Some(resources) = version["resources"].as_array_mut() {
                resources.retain(|resource| is_shown(&group, &resource["resource"]));
            }
        }
    }
    Some(answer.to_string().into())
}

/// The URI of the same watch from an earlier version.
pub fn earlier(uri: &http::Uri, by: u64) -> Option<http::Uri> {
    let (start, version) = uri.path_and_query()?.as_str().split_once("resourceVersion=")?;
    let end = version.find('&').unwrap_or(version.len());
    let before = version.get(..end)?.parse::<u64>().ok()?.checked_sub(by).filter(|version| *version > 0)?;
    format!("{start}resourceVersion={before}{}", version.get(end..)?).parse().ok()
}
