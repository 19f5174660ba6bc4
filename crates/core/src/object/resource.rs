//! Resource types: what the API server serves under one plural name.

use std::fmt;

use serde::{Serialize, Serializer};

/// A group and a plural resource name: what a monitor watches and what, with a
/// uid, keys a node. The version is not part of it: an object is the same
/// through every served version.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: Box<str>,
    /// The plural resource name, such as `configmaps`.
    pub resource: Box<str>,
}

impl GroupResource {
    /// Names a resource of a group; the core group is `""`.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Reads the form of kubectl and of CRD names: `configmaps`, `deployments.apps`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.split_once('.') {
            Some((resource, group)) => Self::new(group, resource),
            None => Self::new("", text),
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

impl fmt::Debug for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for GroupResource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether objects of a type live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One per cluster and name; no namespace.
    Cluster,
    Namespaced,
}

/// One resource type as it is spoken to: its group and resource, the version
/// that requests use, its kind and its scope. Shared by `Arc`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceType {
    pub group_resource: GroupResource,
    /// The version used in requests (the preferred one that can be watched).
    pub version: Box<str>,
    /// The kind, in its proper case.
    pub kind: Box<str>,
    /// Cluster-scoped or namespaced.
    pub scope: Scope,
}

impl ResourceType {
    /// `group/version`, or just the version for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        let group = &self.group_resource.group;
        if group.is_empty() { self.version.to_string() } else { format!("{group}/{}", self.version) }
    }

    /// The URL path of the collection (in a namespace when one is given) or, with
    /// a name, of one object.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let GroupResource { group, resource } = &self.group_resource;
        let mut path = if group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{group}/{}", self.version)
        };
        for part in [namespace.map(|_| "namespaces"), namespace, Some(resource), name].into_iter().flatten() {
            path.push('/');
            path.push_str(part);
        }
        path
    }
}

/// Splits an `apiVersion` into group and version; the core group is `""`.
#[must_use]
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployments() -> ResourceType {
        ResourceType {
            group_resource: GroupResource::parse("deployments.apps"),
            version: "v1".into(),
            kind: "Deployment".into(),
            scope: Scope::Namespaced,
        }
    }

    #[test]
    fn text_forms_round_trip() {
        for text in ["configmaps", "deployments.apps", "widgets.example.com"] {
            assert_eq!(GroupResource::parse(text).to_string(), text);
        }
        assert_eq!(split_api_version("v1"), ("", "v1"));
        assert_eq!(split_api_version("apps/v1"), ("apps", "v1"));
    }

    #[test]
    fn paths_follow_the_api_conventions() {
        let apps = deployments();
        assert_eq!(apps.api_version(), "apps/v1");
        assert_eq!(apps.path(None, None), "/apis/apps/v1/deployments");
        assert_eq!(apps.path(Some("a"), Some("b")), "/apis/apps/v1/namespaces/a/deployments/b");
        let core = ResourceType {
            group_resource: GroupResource::parse("nodes"),
            scope: Scope::Cluster,
            kind: "Node".into(),
            ..apps
        };
        assert_eq!(core.api_version(), "v1");
        assert_eq!(core.path(None, Some("n")), "/api/v1/nodes/n");
    }
}
