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

    pub(super) fn is_namespaced(self) -> bool {
        BUILT_IN.get(self.0).is_none_or(|built_in| built_in.namespaced)
    }
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
    reference(out, cluster, number);
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

fn reference(out: &mut String, cluster: &Cluster, number: Number) {
    let Some(owner) = cluster.owner(number) else { return };
    let of_owner = &BUILT_IN[cluster.resource(owner).0];
    out.push_str(r#","ownerReferences":[{"apiVersion":""#);
    api_version(out, of_owner);
    out.push_str(r#"","kind":""#);
    out.push_str(of_owner.kind);
    out.push_str(r#"","name":""#);
    name(out, cluster, owner);
    out.push_str(r#"","uid":""#);
    uid(out, owner);
    out.push_str(r#"","controller":true,"blockOwnerDeletion":true}]"#);
}
