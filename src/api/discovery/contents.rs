//! The types whose objects a namespace may contain.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::{Group, Served};
use super::fetch;
use crate::api::client::Api;
use crate::api::error::ApiError;
use kube_gc_core::object::{GroupResource, ResourceType, Scope};

/// A namespaced type whose objects can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentType {
    /// The type, in the version to use.
    pub resource: Arc<ResourceType>,
    /// Whether its objects can be listed.
    pub can_list: bool,
    /// Whether all its objects can be deleted by one request.
    pub can_delete_collection: bool,
}

/// All that a namespace may contain, as far as it could be discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentTypes {
    /// Ordered by group and resource.
    pub types: Vec<ContentType>,
    /// The parts of the API that could not be discovered, with the reason.
    pub undiscovered: Vec<(String, String)>,
    /// Group versions that are not valid.
    pub unparsed: Vec<String>,
}

impl Api {
    /// Discovers the namespaced types whose objects can be deleted. Nothing is taken from an earlier
    /// discovery, because a namespace may contain objects of a type that was created since.
    ///
    /// # Errors
    ///
    /// Nothing could be discovered.
    pub async fn content_types(&self) -> Result<ContentTypes, ApiError> {
        let fetch::Fetched { groups, failures } = fetch::groups(self, &[]).await?;
        let part = |group: &str, version: Option<&str>| match (group, version) {
            ("", Some(version)) => version.to_owned(),
            ("", None) => "the core group".to_owned(),
            ("*", None) => "the list of API groups".to_owned(),
            (group, Some(version)) => format!("{group}/{version}"),
            (group, None) => group.to_owned(),
        };
        let mut undiscovered: Vec<_> = failures
            .into_iter()
            .map(|failure| (part(&failure.group, failure.version.as_deref()), failure.error))
            .collect();
        undiscovered.sort();
        let (types, unparsed) = select(&groups);
        Ok(ContentTypes { types, undiscovered, unparsed })
    }
}

/// One version of each type: the first that can be listed, in the group's order of preference.
fn select(groups: &[Group]) -> (Vec<ContentType>, Vec<String>) {
    let mut unparsed = Vec::new();
    let mut found: BTreeMap<GroupResource, Vec<(&str, &Served)>> = BTreeMap::new();
    for group in groups {
        for version in &group.versions {
            // A version with a slash would be read as a group and a version.
            if group.name.contains('/') || version.name.contains('/') || version.name.is_empty() {
                unparsed.push(format!("{}/{}", group.name, version.name));
                continue;
            }
            for served in version.resources.iter().filter(|served| served.namespaced && served.can_delete) {
                let resource = GroupResource::new(&group.name, &served.resource);
                found.entry(resource).or_default().push((&version.name, served));
            }
        }
    }
    let chosen = found.into_iter().filter_map(|(group_resource, versions)| {
        let listed = versions.iter().find(|(_, served)| served.can_list);
        let &(version, served) = listed.or(versions.first())?;
        let resource = ResourceType {
            group_resource,
            version: version.into(),
            kind: served.kind.clone(),
            scope: Scope::Namespaced,
        };
        Some(ContentType {
            resource: Arc::new(resource),
            can_list: served.can_list,
            can_delete_collection: served.can_delete_collection,
        })
    });
    (chosen.collect(), unparsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Reply, Server};

    const ROOTS: [(&str, &str); 2] = [
        ("/api", r#"{"kind":"APIVersions","versions":["v1"]}"#),
        (
            "/apis",
            r#"{"kind":"APIGroupList","groups":[{"name":"example.com","versions":[{"groupVersion":"example.com/v2",
            "version":"v2"},{"groupVersion":"example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":
            "example.com/v2","version":"v2"}}]}"#,
        ),
    ];
    const CORE: &str = r#"{"kind":"APIResourceList","resources":[
        {"name":"pods","namespaced":true,"kind":"Pod","verbs":["delete","deletecollection","list","get"]},
        {"name":"pods/status","namespaced":true,"kind":"Pod","verbs":["get","delete"]},
        {"name":"bindings","namespaced":true,"kind":"Binding","verbs":["create"]},
        {"name":"nodes","namespaced":false,"kind":"Node","verbs":["delete","list"]}]}"#;
    const V1: &str = r#"{"kind":"APIResourceList","resources":[
        {"name":"widgets","namespaced":true,"kind":"Widget","verbs":["delete","list"]},
        {"name":"secrecies","namespaced":true,"kind":"Secrecy","verbs":["delete"]}]}"#;
    const V2: &str = r#"{"kind":"APIResourceList","resources":[
        {"name":"widgets","namespaced":true,"kind":"Widget","verbs":["delete"]}]}"#;

    async fn types(v2: Reply) -> ContentTypes {
        let server = Server::answering(move |seen| {
            let root = ROOTS.iter().find(|(path, _)| *path == seen.path);
            match (&*seen.path, root) {
                (_, Some((_, body))) => Reply::ok(*body),
                ("/api/v1", _) => Reply::ok(CORE),
                ("/apis/example.com/v1", _) => Reply::ok(V1),
                _ => v2.clone(),
            }
        });
        server.api().content_types().await.unwrap()
    }

    #[tokio::test]
    async fn each_namespaced_type_that_can_be_deleted_counts_in_a_version_that_can_be_listed() {
        let found = types(Reply::ok(V2)).await;
        let shown: Vec<_> = found
            .types
            .iter()
            .map(|of_type| {
                let ContentType { resource, can_list, can_delete_collection } = of_type;
                (
                    format!("{} {}", resource.group_resource, resource.version),
                    *can_list,
                    *can_delete_collection,
                )
            })
            .collect();
        let expected = [
            ("pods v1", true, true),
            ("secrecies.example.com v1", false, false),
            ("widgets.example.com v1", true, false),
        ];
        assert_eq!(shown, expected.map(|(name, list, collection)| (name.to_owned(), list, collection)));
        assert!(found.undiscovered.is_empty() && found.unparsed.is_empty());
    }

    #[tokio::test]
    async fn a_version_that_cannot_be_read_is_named() {
        let found = types(Reply::status(503, "not at home", "{}")).await;
        let [(part, why)] = &found.undiscovered[..] else { panic!("{found:?}") };
        assert_eq!(part, "example.com/v2");
        assert!(why.contains("not at home"), "{why}");
    }
}
