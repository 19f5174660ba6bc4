//! The plain discovery documents.

use serde_json::{Map, Value, json};

use crate::resources::{Catalog, Resource};
use crate::server::Release;

/// `/api`.
pub fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}],
    })
}

/// `/apis`.
pub fn groups(catalog: &Catalog) -> Value {
    let groups: Vec<Value> =
        catalog.groups().iter().filter_map(|name| group_fields(catalog, name)).map(Value::from).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`, if the group exists.
pub fn group(catalog: &Catalog, name: &str) -> Option<Value> {
    let mut document = Map::new();
    document.insert("kind".to_owned(), "APIGroup".into());
    document.insert("apiVersion".to_owned(), "v1".into());
    document.extend(group_fields(catalog, name)?);
    Some(document.into())
}

fn group_fields(catalog: &Catalog, name: &str) -> Option<Map<String, Value>> {
    let versions: Vec<Value> = catalog
        .versions(name)
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    let mut fields = Map::new();
    fields.insert("name".to_owned(), name.into());
    fields.insert("versions".to_owned(), versions.into());
    fields.insert("preferredVersion".to_owned(), preferred);
    Some(fields)
}

/// `/api/v1` and `/apis/{group}/{version}`, if anything is served there.
pub fn resources(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<Value> = catalog
        .types(group, version)
        .flat_map(|resource| {
            let below = resource.subresources.iter().map(|name| subresource(catalog, resource, name));
            std::iter::once(main(resource)).chain(below)
        })
        .collect();
    if resources.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }))
}

fn main(resource: &Resource) -> Value {
    let mut document = json!({
        "name": resource.name.plural.as_ref(),
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            document[field] = json!(names);
        }
    }
    document
}

fn subresource(catalog: &Catalog, resource: &Resource, name: &str) -> Value {
    let known = Subresource::named(&resource.name.plural, name, catalog.release());
    let mut document = json!({
        "name": format!("{}/{name}", resource.name.plural),
        "singularName": "",
        "namespaced": resource.namespaced,
    });
    if let Some((group, version)) = known.from {
        document["group"] = group.into();
        document["version"] = version.into();
    }
    document["kind"] = known.kind.unwrap_or(&resource.kind).into();
    document["verbs"] = json!(known.verbs);
    document
}

const CREATE: &[&str] = &["create"];

/// A subresource in discovery: its kind, with group and version if they differ from the parent's,
/// and its verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subresource {
    /// `None` if it is the parent's.
    pub(super) kind: Option<&'static str>,
    /// The group and version of the kind, if they differ.
    pub(super) from: Option<(&'static str, &'static str)>,
    pub(super) verbs: &'static [&'static str],
}

impl Subresource {
    /// The subresource with this name of a resource.
    pub(super) fn named(plural: &str, name: &str, release: Release) -> Self {
        const CHANGE: &[&str] = &["get", "patch", "update"];
        const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
        const STREAM: &[&str] = &["create", "get"];
        let one = |kind, verbs| Self { kind: Some(kind), from: None, verbs };
        let policy = if release == Release::V1_20 { "v1beta1" } else { "v1" };
        match (plural, name) {
            ("namespaces", "finalize") => Self { kind: None, from: None, verbs: &["update"] },
            (_, "scale") => Self { kind: Some("Scale"), from: Some(("autoscaling", "v1")), verbs: CHANGE },
            ("pods", "attach") => one("PodAttachOptions", STREAM),
            ("pods", "binding") => one("Binding", CREATE),
            ("pods", "eviction") => {
                Self { kind: Some("Eviction"), from: Some(("policy", policy)), verbs: CREATE }
            }
            ("pods", "exec") => one("PodExecOptions", STREAM),
            ("pods", "log") => Self { kind: None, from: None, verbs: &["get"] },
            ("pods", "portforward") => one("PodPortForwardOptions", STREAM),
            ("pods", "proxy") => one("PodProxyOptions", PROXY),
            ("nodes", "proxy") => one("NodeProxyOptions", PROXY),
            ("services", "proxy") => one("ServiceProxyOptions", PROXY),
            ("serviceaccounts", "token") => Self {
                kind: Some("TokenRequest"),
                from: Some(("authentication.k8s.io", "v1")),
                verbs: CREATE,
            },
            _ => Self { kind: None, from: None, verbs: CHANGE },
        }
    }
}
