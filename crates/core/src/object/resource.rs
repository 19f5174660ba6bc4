//! Resource types, and the catalog of those that the API server serves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

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
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Parses the form that kubectl and CRD names use: `configmaps`, `deployments.apps`.
    pub fn parse(text: &str) -> Self {
        match text.split_once('.') {
            Some((resource, group)) => Self::new(group, resource),
            None => Self::new("", text),
        }
    }

    /// Whether a user who writes this may mean that type: the group may be left out.
    pub fn may_mean(&self, other: &Self) -> bool {
        self == other || (self.group.is_empty() && self.resource == other.resource)
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
    /// A type by its name as of CRDs, `resource.group`.
    pub fn of(name: &str, version: &str, kind: &str, scope: Scope) -> Arc<Self> {
        let group_resource = GroupResource::parse(name);
        Arc::new(Self { group_resource, version: version.into(), kind: kind.into(), scope })
    }

    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        let group = &self.group_resource.group;
        if group.is_empty() { self.version.to_string() } else { format!("{group}/{}", self.version) }
    }
}

/// Splits an `apiVersion` into group and version; the core group is `""`.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// One kind in one served version, from discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// A type occurs once per served version.
    pub version: Box<str>,
    /// The type, with the version that requests use.
    pub resource: Arc<ResourceType>,
}

/// Resolves an `apiVersion` and `kind` to a resource type.
///
/// A catalog knows every served version of every type, including types that cannot be watched,
/// because an owner may be of any kind that can be read. It is immutable and is replaced as a
/// whole, so that each user sees one state of the server.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// If a group version has two resources of one kind, this has the one that can be deleted.
    kinds: HashMap<KindKey, KindEntry>,
    types: BTreeMap<GroupResource, Arc<ResourceType>>,
    /// Served group versions whose kinds discovery could not read so far.
    unread: BTreeSet<(Box<str>, Box<str>)>,
}

/// Group, version, kind in lower case.
pub type KindKey = (Box<str>, Box<str>, Box<str>);

#[derive(Debug, PartialEq, Eq)]
struct KindEntry {
    exact: Box<str>,
    resource: Arc<ResourceType>,
}

impl Catalog {
    pub fn builder() -> CatalogBuilder {
        CatalogBuilder::default()
    }

    /// The type of a reference's `apiVersion` and `kind`, through any served version. The kind may
    /// be in its proper case or in lower case. `None` means that the server does not serve it,
    /// which proves nothing about objects.
    pub fn resolve(&self, api_version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        let (group, version) = split_api_version(api_version);
        let lower = kind.to_lowercase();
        let entry = self.kinds.get(&(group.into(), version.into(), lower.as_str().into()))?;
        (*kind == *entry.exact || kind == lower).then_some(&entry.resource)
    }

    /// The type of a group and resource, if it is served.
    pub fn resource(&self, group_resource: &GroupResource) -> Option<&Arc<ResourceType>> {
        self.types.get(group_resource)
    }

    /// Whether discovery could not read the kinds of some served group version so far. References
    /// through it do not resolve, although their owners may exist.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The groups of these versions.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        self.unread.iter().map(|(group, _)| &**group)
    }

    /// Whether this `apiVersion` is such a group version; see [`has_unread`](Self::has_unread).
    pub fn is_unread(&self, api_version: &str) -> bool {
        let (group, version) = split_api_version(api_version);
        // There are few: those of API servers that do not answer.
        self.unread.iter().any(|(other, of)| **other == *group && **of == *version)
    }

    /// Whether any kind of a group version is served.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.kinds.keys().any(|(of, other, _)| **of == *group && **other == *version)
    }

    /// Whether the kinds of a group differ.
    pub fn differs_in_group(&self, other: &Self, group: &str) -> bool {
        let part = |catalog: &Self| -> BTreeMap<_, _> {
            let kinds = catalog.kinds.iter().filter(|((of, ..), _)| &**of == group);
            kinds.map(|(kind, entry)| (kind.clone(), Arc::clone(&entry.resource))).collect()
        };
        part(self) != part(other)
    }

    /// The kinds of this catalog that another one lacks, with their types, in no particular order.
    pub fn kinds_missing_in<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a KindKey, &'a Arc<ResourceType>)> {
        let missing = self.kinds.iter().filter(|(key, _)| !other.kinds.contains_key(*key));
        missing.map(|(key, entry)| (key, &entry.resource))
    }

    /// This catalog, together with the kinds and types of an earlier one that are to be kept.
    pub fn keeping(
        &self,
        earlier: &Self,
        keeps_kind: impl Fn(&KindKey) -> bool,
        keeps_type: impl Fn(&GroupResource) -> bool,
    ) -> Self {
        let (mut kinds, mut types) = (HashMap::new(), self.types.clone());
        for (name, resource) in &earlier.types {
            if !types.contains_key(name) && keeps_type(name) {
                types.insert(name.clone(), Arc::clone(resource));
            }
        }
        let earlier = earlier.kinds.iter().filter(|(key, _)| keeps_kind(key));
        for (key, KindEntry { exact, resource }) in earlier.chain(&self.kinds) {
            let now = types.get(&resource.group_resource).filter(|now| now.kind == resource.kind);
            let resource = Arc::clone(now.unwrap_or(resource));
            kinds.insert(key.clone(), KindEntry { exact: exact.clone(), resource });
        }
        Self { kinds, types, unread: self.unread.clone() }
    }

    /// All types, ordered by group and resource.
    pub fn types(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.types.values()
    }
}

/// Builds a catalog from the results of discovery.
#[derive(Debug, Default)]
pub struct CatalogBuilder(Catalog);

impl CatalogBuilder {
    /// Adds one served version of a type. The first resource of a kind in a group version is kept,
    /// so callers add deletable resources first.
    pub fn add(&mut self, served: ServedKind) -> &mut Self {
        let ServedKind { version, resource } = served;
        let GroupResource { group, .. } = &resource.group_resource;
        self.0
            .kinds
            .entry((group.clone(), version, resource.kind.to_lowercase().into()))
            .or_insert_with(|| KindEntry { exact: resource.kind.clone(), resource: Arc::clone(&resource) });
        self.0.types.entry(resource.group_resource.clone()).or_insert(resource);
        self
    }

    /// Records a group version whose kinds could not be read.
    pub fn unread(&mut self, group: &str, version: &str) -> &mut Self {
        self.0.unread.insert((group.into(), version.into()));
        self
    }

    pub fn build(self) -> Catalog {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Scope;

    fn deployments() -> Arc<ResourceType> {
        ResourceType::of("deployments.apps", "v1", "Deployment", Scope::Namespaced)
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
    fn the_core_group_has_no_name() {
        assert_eq!(deployments().api_version(), "apps/v1");
        assert_eq!(ResourceType::of("nodes", "v1", "Node", Scope::Cluster).api_version(), "v1");
    }

    fn catalog() -> Catalog {
        let widgets = ResourceType::of("widgets.example.com", "v2", "Widget", Scope::Namespaced);
        let mut builder = Catalog::builder();
        for version in ["v1", "v2"] {
            builder.add(ServedKind { version: version.into(), resource: Arc::clone(&widgets) });
        }
        builder.build()
    }

    #[test]
    fn a_kind_resolves_exactly_or_in_lower_case_through_every_served_version() {
        let catalog = catalog();
        let v1 = catalog.resolve("example.com/v1", "Widget").unwrap();
        let v2 = catalog.resolve("example.com/v2", "Widget").unwrap();
        assert!(Arc::ptr_eq(v1, v2));
        assert!(catalog.resolve("example.com/v3", "Widget").is_none());
        assert!(catalog.resolve("example.com/v1", "widget").is_some());
        assert!(catalog.resolve("example.com/v1", "WIDGET").is_none());
    }

    #[test]
    fn an_unread_version_is_recorded_as_unread() {
        assert!(!catalog().has_unread());
        let mut builder = Catalog::builder();
        builder.unread("example.com", "v1");
        let catalog = builder.build();
        assert!(catalog.has_unread() && catalog.is_unread("example.com/v1"));
        assert!(!catalog.is_unread("example.com/v2") && !catalog.is_unread("v1"));
        assert_ne!(catalog, Catalog::default(), "the two must differ");
    }

    #[test]
    fn missing_kinds_can_be_kept_one_by_one() {
        let earlier = catalog();
        let mut builder = Catalog::builder();
        let moved = Arc::new(ResourceType {
            version: "v1".into(),
            ..ResourceType::clone(earlier.resource(&GroupResource::parse("widgets.example.com")).unwrap())
        });
        builder.add(ServedKind { version: "v1".into(), resource: moved });
        let now = builder.build();
        assert_eq!(earlier.kinds_missing_in(&now).map(|(key, _)| &*key.1).collect::<Vec<_>>(), ["v2"]);
        let kept = now.keeping(&earlier, |_| true, |_| true);
        let through_v2 = kept.resolve("example.com/v2", "Widget").unwrap();
        assert_eq!(&*through_v2.version, "v1", "requests use a served version");
        assert!(now.keeping(&earlier, |_| false, |_| false) == now);
        let nothing = Catalog::default().keeping(&earlier, |_| true, |_| true);
        assert!(nothing == earlier);
    }
}
