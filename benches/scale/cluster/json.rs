//! Objects as the API server shows their metadata.

use std::fmt::Write as _;

use super::names::{app, hex, mix, name, namespace, uid};
use super::shape::BUILT_IN;
use super::{Cluster, Number, Place, Type};

/// What a type is called.
#[derive(Clone, Debug)]
pub struct Called {
    pub group: String,
    pub version: &'static str,
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
}

impl Type {
    /// What it is called.
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

    fn is_namespaced(self) -> bool {
        BUILT_IN.get(self.0).is_none_or(|built_in| built_in.namespaced)
    }
}

/// Appends a watch event: what happened to an object at a version.
pub fn event(out: &mut String, cluster: &Cluster, number: Number, happened: &str, version: u64) {
    out.push_str(r#"{"type":""#);
    out.push_str(happened);
    out.push_str(r#"","object":"#);
    object(out, cluster, number, version);
    out.push_str("}\n");
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
    let random = mix(number.0);
    let (hour, minute, second) = (random % 24, random / 32 % 60, random / 2048 % 60);
    let _ = write!(
        out,
        r#"","generation":1,"creationTimestamp":"2026-03-{:02}T{hour:02}:{minute:02}:{second:02}Z""#,
        random % 28 + 1
    );
    labels(out, cluster, number, version);
    annotations(out, number);
    references(out, cluster, number);
    out.push_str("}}");
}

/// The label of the version changes with every update: what nobody but its owner looks at.
fn labels(out: &mut String, cluster: &Cluster, number: Number, version: u64) {
    let (block, index) = match cluster.place(number) {
        Place::Block { block, index, .. }
        | Place::Custom { block, index, .. }
        | Place::Later { block, index } => (block, index),
    };
    out.push_str(r#","labels":{"app.kubernetes.io/instance":""#);
    app(out, cluster, block, index % 8);
    out.push_str(r#"","app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/name":""#);
    app(out, cluster, block, index % 8);
    let _ = write!(out, r#"","app.kubernetes.io/version":"1.{}.{}""#, version / 1000 % 1000, version % 1000);
    out.push_str(r#","helm.sh/chart":"service-4.12.0","pod-template-hash":""#);
    hex(out, mix(block), 10);
    out.push_str(r#"","team":"platform"}"#);
}

fn annotations(out: &mut String, Number(number): Number) {
    out.push_str(r#","annotations":{"checksum/config":""#);
    for part in 0..4 {
        hex(out, mix(number ^ part << 60), 16);
    }
    out.push_str(
        r#"","meta.helm.sh/release-name":"service","meta.helm.sh/release-namespace":"default","prometheus.io/scrape":"true"}"#,
    );
}

fn references(out: &mut String, cluster: &Cluster, number: Number) {
    const CONTROLLER: &str = r#"","controller":true,"blockOwnerDeletion":true}"#;
    let mut is_first = true;
    for owner in cluster.owners(number) {
        out.push_str(if is_first { r#","ownerReferences":["# } else { "," });
        let owners = &BUILT_IN[cluster.resource(owner).0];
        out.push_str(r#"{"apiVersion":""#);
        if !owners.group.is_empty() {
            out.push_str(owners.group);
            out.push('/');
        }
        out.push_str(owners.version);
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
