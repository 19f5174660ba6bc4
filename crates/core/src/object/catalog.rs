//! The catalog of resource types that the API server serves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{GroupResource, ResourceType, split_api_version};

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
    #[must_use]
    pub fn builder() -> CatalogBuilder {
        CatalogBuilder::default()
    }

    /// The type of a reference's `apiVersion` and `kind`, through any served version. The kind may
    /// be in its proper case or in lower case. `None` means that the server does not serve it,
    /// which proves nothing about objects.
    #[must_use]
    pub fn resolve(&self, api_version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        let (group, version) = split_api_version(api_version);
        let lower = kind.to_lowercase();
        let entry = self.kinds.get(&(group.into(), version.into(), lower.as_str().into()))?;
        (*kind == *entry.exact || kind == lower).then_some(&entry.resource)
    }

    /// The type of a group and resource, if it is served.
    #[must_use]
    pub fn resource(&self, group_resource: &GroupResource) -> Option<&Arc<ResourceType>> {
        self.types.get(group_resource)
    }

    /// Whether discovery could not read the kinds of some served group version so far. References
    /// through it do not resolve, although their owners may exist.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether this `apiVersion` is such a group version; see [`has_unread`](Self::has_unread).
    #[must_use]
    pub fn is_unread(&self, api_version: &str) -> bool {
        let (group, version) = split_api_version(api_version);
        // There are few: those of API servers that do not answer.
        self.unread.iter().any(|(other, of)| **other == *group && **of == *version)
    }

    /// Whether any kind of a group version is served.
    #[must_use]
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.kinds.keys().any(|(of, other, _)| **of == *group && **other == *version)
    }

    /// Whether the kinds of a group differ.
    #[must_use]
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
    #[must_use]
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

    #[must_use]
    pub fn build(self) -> Catalog {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Scope;

    fn catalog() -> Catalog {
        let widgets = Arc::new(ResourceType {
            group_resource: GroupResource::parse("widgets.example.com"),
            version: "v2".into(),
            kind: "Widget".into(),
            scope: Scope::Namespaced,
        });
        let mut builder = Catalog::builder();
        for version in ["v1", "v2"] {
            builder.add(ServedKind { version: version.into(), resource: Arc::clone(&widgets) });
        }
        builder.build()
    }

    #[test]
    fn every_served_version_resolves_to_the_one_type() {
        let catalog = catalog();
        let v1 = catalog.resolve("example.com/v1", "Widget").unwrap();
        let v2 = catalog.resolve("example.com/v2", "Widget").unwrap();
        assert!(Arc::ptr_eq(v1, v2));
        assert!(catalog.resolve("example.com/v3", "Widget").is_none());
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

    #[test]
    fn a_kind_resolves_exactly_or_in_lower_case_but_in_no_other() {
        let catalog = catalog();
        assert!(catalog.resolve("example.com/v1", "widget").is_some());
        assert!(catalog.resolve("example.com/v1", "WIDGET").is_none());
    }
}
