//! The metadata of objects in the JSON of the API server.

use std::fmt::Write as _;

use super::content::{Created, annotations, api_version, created, labels};
use super::names::{name, namespace, uid};
use super::shape::BUILT_IN;
use super::{Cluster, Number, Type};

/// The names of a type.
#[derive(Clone, Debug)]
pub struct Called {
    pub group: String,
    pub version: &'static str,
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
}

impl Type {
    /// The names of a type.
    pub fn called(self) -> Called {
        match BUILT_IN.get(self.0) {
            Some(built_in) => Called {
                group: built_in.group.to_owned(),
                version: built_in.version,
                plural: built_in.plural.to_owned(),
                kind: built_in.kind.to_owned(),
                namespaced: built_in.namespaced,
            },
            None => {
                let number = self.0 - BUILT_IN.len();
                Called {
                    group: "scale.example.com".to_owned(),
                    version: "v1",
                    plural: format!("widget{number}s"),
                    kind: format!("Widget{number}"),
                    namespaced: true,
                }
            }
        }
    }

    /// Whether it is a built-in type.
    pub fn is_built_in(self) -> bool {
        self.0 < BUILT_IN.len()
    }

    pub(super) fn is_namespaced(self) -> bool {
        BUILT_IN.get(self.0).is_none_or(|built_in| built_in.namespaced)
    }
}

/// Appends a watch event about an object at a version.
pub fn event(out: &mut String, cluster: &Cluster, number: Number, happened: &str, version: u64) {
    out.push_str(r#"{"type":""#);
    out.push_str(happened);
    out.push_str(r#"","object":"#);
    object(out, cluster, number, version);
    out.push_str("}\n");
}

/// A bookmark at a version.
pub fn bookmark(version: u64) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"{version}","creationTimestamp":null}}}}}}"#
    ) + "\n"
}

/// Appends the metadata of an object at a version.
pub fn object(out: &mut String, cluster: &Cluster, number: Number, version: u64) {
    out.push_str(r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":""#);
    name(out, cluster, number);
    if cluster.resource(number).is_namespaced() {
        out.push_str(r#"","namespace":""#);
        namespace(out, cluster, number);
    }
    out.push_str(r#"","uid":""#);
    uid(out, number);
    out.push_str(r#"","resourceVersion":""#);
    let _ = write!(out, "{version}");
    let Created { day, hour, minute, second } = created(number);
    let _ = write!(
        out,
        r#"","generation":1,"creationTimestamp":"2026-03-{day:02}T{hour:02}:{minute:02}:{second:02}Z""#
    );
    map(out, "labels", |put| labels(cluster, number, version, put));
    map(out, "annotations", |put| annotations(number, put));
    references(out, cluster, number);
    out.push_str("}}");
}

fn map(out: &mut String, name: &str, entries: impl FnOnce(&mut dyn FnMut(&str, &str))) {
    let mut opening = "{\"";
    let _ = write!(out, r#","{name}":"#);
    entries(&mut |key, value| {
        for part in [opening, key, "\":\"", value, "\""] {
            out.push_str(part);
        }
        opening = ",\"";
    });
    out.push('}');
}

fn references(out: &mut String, cluster: &Cluster, number: Number) {
    const CONTROLLER: &str = r#"","controller":true,"blockOwnerDeletion":true}"#;
    let mut is_first = true;
    for owner in cluster.owners(number) {
        out.push_str(if is_first { r#","ownerReferences":["# } else { "," });
        let owners = &BUILT_IN[cluster.resource(owner).0];
        out.push_str(r#"{"apiVersion":""#);
        api_version(out, owners);
        out.push_str(r#"","kind":""#);
        out.push_str(owners.kind);
        out.push_str(r#"","name":""#);
        name(out, cluster, owner);
        out.push_str(r#"","uid":""#);
        uid(out, owner);
        out.push_str(if is_first { CONTROLLER } else { r#"","blockOwnerDeletion":true}"# });
        is_first = false;
    }
    if !is_first {
        out.push(']');
    }
}
