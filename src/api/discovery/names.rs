//! Types by the names that people type.

use std::sync::Arc;

use super::Discovered;
use kube_gc_core::object::{GroupResource, ResourceType};

impl Discovered {
    /// The type that a name stands for, as kubectl reads it: `TYPE`, `TYPE.GROUP` or
    /// `TYPE.VERSION.GROUP`, where `TYPE` is a resource, its singular, its kind or a short name.
    /// Of several groups, the first that the server lists counts.
    #[must_use]
    pub fn type_named(&self, name: &str) -> Option<&Arc<ResourceType>> {
        let name = name.to_lowercase();
        let (own, rest) = name.split_once('.').map_or((name.as_str(), None), |(own, rest)| (own, Some(rest)));
        for group in &self.groups {
            for version in &group.versions {
                let fits = rest.is_none_or(|rest| {
                    let group = group.name.to_lowercase();
                    rest == group
                        || rest
                            .strip_prefix(&*version.name)
                            .is_some_and(|rest| rest.strip_prefix('.').unwrap_or(rest) == group)
                });
                if !fits {
                    continue;
                }
                let mut named = version.resources.iter().filter(|served| {
                    *served.resource == *own
                        || *served.singular == *own
                        || served.kind.to_lowercase() == own
                        || served.short_names.iter().any(|short| **short == *own)
                });
                let found = named.find_map(|served| {
                    self.catalog.resource(&GroupResource::new(&group.name, &served.resource))
                });
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}
