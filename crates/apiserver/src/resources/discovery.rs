//! The plain discovery documents.

use serde_json::{Map, Value, json};

use crate::resources::{Catalog, Resource};

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
            let below = resource.subresources.iter().map(|name| subresource(resource, name));
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
    add_names(&mut document, resource);
    document
}

/// Adds the names that only some types have.
pub(super) fn add_names(document: &mut Value, resource: &Resource) {
    for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            document[field] = json!(names);
        }
    }
}

fn subresource(resource: &Resource, name: &str) -> Value {
    json!({
        "name": format!("{}/{name}", resource.name.plural),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs_below(name),
    })
}

/// The verbs of a subresource.
pub(super) fn verbs_below(name: &str) -> &'static [&'static str] {
    if name == "finalize" { &["update"] } else { &["get", "patch", "update"] }
}
