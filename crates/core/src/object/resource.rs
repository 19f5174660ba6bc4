//! Resource types.

use std::fmt;

use serde::{Serialize, Serializer};

/// A group and a plural resource name. A monitor watches one, and together with a uid it is the key
/// of a node. It has no version, because an object is the same through every served version.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: Box<str>,
    /// The plural name, such as `configmaps`.
    pub resource: Box<str>,
}

impl GroupResource {
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Parses the form that kubectl and CRD names use: `configmaps`, `deployments.apps`.
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
    Cluster,
    Namespaced,
}

/// A resource type, with the version that requests use. It is shared by `Arc`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceType {
    pub group_resource: GroupResource,
    /// The preferred version that can be watched.
    pub version: Box<str>,
    /// In its proper case.
    pub kind: Box<str>,
    pub scope: Scope,
}

impl ResourceType {
    /// `group/version`, or `version` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        let group = &self.group_resource.group;
        if group.is_empty() { self.version.to_string() } else { format!("{group}/{}", self.version) }
    }

    /// The URL path of the collection, or of one object if a name is given.
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
