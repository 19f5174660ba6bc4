//! The discovery parser as the fuzz targets see it: a second, naive reading must find the same.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::{self, Group, Served, Version};
use super::fetch::{self, Services};
use kube_gc_core::object::Scope;
use kube_gc_decode::fuzzing::naive::{Misshapen, Read, elements, fields, part};
use kube_gc_decode::fuzzing::{compare, no_disguise};

/// Discovery documents, of every kind, and the catalog that is made of them.
pub fn discovery(bytes: &[u8]) {
    compare(bytes, root, naive_groups, no_disguise);
    compare(bytes, resources, naive_resources, no_disguise);
    select(bytes);
}

/// A resource that a document lists.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListMeta {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub kind: String,
    pub namespaced: bool,
    pub collectable: bool,
}

/// The group versions with whether they are complete, and what they serve.
type Groups = (Vec<(String, String, bool)>, Vec<ListMeta>);

fn listed(group: &str, version: &str, served: &Served) -> ListMeta {
    ListMeta {
        group: group.into(),
        version: version.into(),
        resource: served.resource.to_string(),
        kind: served.kind.to_string(),
        namespaced: served.namespaced,
        collectable: served.watchable,
    }
}

/// What `/api` or `/apis` says.
fn root(body: &[u8]) -> Option<Groups> {
    let groups = document::root(body).ok()?;
    let versions =
        || groups.iter().flat_map(|group| group.versions.iter().map(move |version| (group, version)));
    Some((
        versions()
            .map(|(group, version)| (group.name.to_string(), version.name.to_string(), version.current))
            .collect(),
        versions()
            .flat_map(|(group, version)| {
                version.resources.iter().map(|served| listed(&group.name, &version.name, served))
            })
            .collect(),
    ))
}

/// What `/apis/GROUP/VERSION` says.
fn resources(body: &[u8]) -> Option<Vec<ListMeta>> {
    Some(document::resources(body).ok()?.iter().map(|served| listed("", "", served)).collect())
}

/// Makes a catalog of whatever the document is, and holds it to the document.
fn select(body: &[u8]) {
    let services = fetch::read_services(body).map(Services::of).unwrap_or_default();
    let groups = match (document::root(body), document::resources(body)) {
        (Ok(groups), _) => groups,
        (_, Ok(resources)) => {
            let versions = vec![Version { name: "v1".into(), resources, current: true }];
            vec![Group { name: "example.com".into(), versions }]
        }
        _ => return,
    };
    let served: Vec<ListMeta> = groups
        .iter()
        .flat_map(|group| group.versions.iter().map(move |version| (group, version)))
        .flat_map(|(group, version)| {
            version.resources.iter().map(|served| listed(&group.name, &version.name, served))
        })
        .collect();
    let (catalog, watchable) = super::select(&groups, &services, None);
    for known in catalog.types() {
        let fits = |served: &&ListMeta| {
            *served.group == *known.group_resource.group
                && *served.version == *known.version
                && *served.resource == *known.group_resource.resource
                && *served.kind == *known.kind
                && served.namespaced == (known.scope == Scope::Namespaced)
        };
        assert!(served.iter().any(|served| fits(&served)), "nobody serves {known:?}");
    }
    let mut seen = BTreeSet::new();
    for watchable in &watchable {
        let resource = &watchable.resource;
        assert!(
            seen.insert(resource.group_resource.clone()),
            "{:?} would be watched twice",
            resource.group_resource
        );
        let fits = |served: &&ListMeta| {
            *served.group == *resource.group_resource.group
                && *served.version == *resource.version
                && *served.resource == *resource.group_resource.resource
                && served.collectable
        };
        assert!(served.iter().any(|served| fits(&served)), "nobody lets {resource:?} be collected");
        assert!(catalog.resource(&resource.group_resource).is_some(), "{resource:?} is not in the catalog");
    }
    for served in &served {
        let of = kube_gc_core::object::GroupResource::new(&served.group, &served.resource);
        assert!(catalog.resource(&of).is_some(), "{served:?} was lost");
        assert!(!served.collectable || seen.contains(&of), "{served:?} would not be watched");
    }
}

/// A text that must be there, or, with a default, may be left out; never `null`.
fn word(of: &serde_json::Map<String, Value>, field: &str, default: Option<&str>) -> Read<String> {
    match (of.get(field), default) {
        (Some(Value::String(text)), _) => Ok(text.clone()),
        (None, Some(default)) => Ok(default.to_owned()),
        _ => Err(Misshapen),
    }
}

/// Adds a resource, unless it is a subresource or can do nothing.
fn add(
    listed: &mut Vec<ListMeta>,
    (group, version): (&str, &str),
    resource: &str,
    kind: &str,
    namespaced: bool,
    verbs: &[Value],
) -> Read<()> {
    let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str().ok_or(Misshapen)).collect::<Read<_>>()?;
    let is_odd = |letter: char| !letter.is_ascii_alphanumeric() && !"-._".contains(letter);
    let is_a_name = !resource.is_empty()
        && resource.len() <= 253
        && !resource.starts_with('.')
        && !resource.contains(is_odd);
    if is_a_name && !kind.is_empty() && !verbs.is_empty() {
        listed.push(ListMeta {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            collectable: ["delete", "list", "watch"].iter().all(|verb| verbs.contains(verb)),
        });
    }
    Ok(())
}

/// What `/api` or `/apis` says: the group versions, whether they are complete, and
/// what they serve.
fn naive_groups(document: &Value) -> Read<Groups> {
    let document = fields(document)?;
    let (mut versions, mut listed) = (Vec::new(), Vec::new());
    match &*word(document, "kind", Some(""))? {
        "APIVersions" => {
            for version in elements(document, "versions")? {
                let version = version.as_str().ok_or(Misshapen)?;
                versions.push((String::new(), version.to_owned(), false));
            }
        }
        "APIGroupList" => {
            for group in elements(document, "groups")? {
                let group = fields(group)?;
                let name = word(group, "name", None)?;
                let preferred = word(&part(group, "preferredVersion")?, "version", Some(""))?;
                let mut of_group = Vec::new();
                for version in elements(group, "versions")? {
                    of_group.push(word(fields(version)?, "version", Some(""))?);
                }
                let (first, others): (Vec<_>, Vec<_>) =
                    of_group.into_iter().partition(|version| *version == preferred);
                versions
                    .extend(first.into_iter().chain(others).map(|version| (name.clone(), version, false)));
            }
        }
        "APIGroupDiscoveryList" => {
            for group in elements(document, "items")? {
                let group = fields(group)?;
                let name = match group.get("metadata") {
                    None => String::new(),
                    Some(metadata) => word(fields(metadata)?, "name", Some(""))?,
                };
                for version in elements(group, "versions")? {
                    let version = fields(version)?;
                    let (label, freshness) =
                        (word(version, "version", None)?, word(version, "freshness", Some(""))?);
                    for resource in elements(version, "resources")? {
                        let resource = fields(resource)?;
                        let kind = word(&part(resource, "responseKind")?, "kind", Some(""))?;
                        let namespaced = word(resource, "scope", Some(""))? == "Namespaced";
                        let plural = word(resource, "resource", None)?;
                        let verbs = elements(resource, "verbs")?;
                        add(&mut listed, (&name, &label), &plural, &kind, namespaced, verbs)?;
                    }
                    versions.push((name.clone(), label, freshness != "Stale"));
                }
            }
        }
        _ => return Err(Misshapen),
    }
    Ok((versions, listed))
}

/// What `/apis/GROUP/VERSION` says.
fn naive_resources(document: &Value) -> Read<Vec<ListMeta>> {
    let document = fields(document)?;
    if word(document, "kind", Some(""))? != "APIResourceList" {
        return Err(Misshapen);
    }
    let mut listed = Vec::new();
    for resource in elements(document, "resources")? {
        let resource = fields(resource)?;
        let (plural, kind) = (word(resource, "name", None)?, word(resource, "kind", Some(""))?);
        let namespaced = match resource.get("namespaced") {
            None => false,
            Some(namespaced) => namespaced.as_bool().ok_or(Misshapen)?,
        };
        add(&mut listed, ("", ""), &plural, &kind, namespaced, elements(resource, "verbs")?)?;
    }
    Ok(listed)
}
