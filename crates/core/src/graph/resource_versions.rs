//! The resource versions of nodes. Nearly all are numbers and take eight bytes in the node.

use crate::object::{Keyed, ResourceVersion};

use super::keyed::KeyedMap;
use super::node::{NodeId, Version};

/// The versions that are not numbers, as some aggregated API servers have them.
#[derive(Debug)]
pub(super) struct Versions(KeyedMap<NodeId, ResourceVersion>);

impl Versions {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self(KeyedMap::with_hasher(hasher))
    }

    /// The version of a node.
    pub(super) fn get(&self, id: NodeId, version: Version) -> Option<ResourceVersion> {
        match version {
            Version::NONE => None,
            Version::APART => self.0.get(&id).cloned(),
            Version(number) => Some(ResourceVersion::number(number)),
        }
    }

    /// Sets or clears the version of a node.
    pub(super) fn set(&mut self, id: NodeId, version: &mut Version, new: Option<&ResourceVersion>) {
        if version.is_apart() {
            self.0.remove(&id);
        }
        *version = match new {
            None => Version::NONE,
            Some(new) => match new.as_number().map(Version) {
                Some(number) if number != Version::NONE && number != Version::APART => number,
                _ => {
                    self.0.insert(id, new.clone());
                    Version::APART
                }
            },
        };
    }

    /// The size of the map, without the rare texts in it.
    pub(super) fn bytes(&self) -> usize {
        self.0.allocation_size()
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_round_trips_and_is_freed() {
        let id = NodeId::from_index(0);
        let hasher = crate::object::HashSeed::new(1).keyed(0);
        let (mut versions, mut version) = (Versions::new(hasher), Version::default());
        let texts =
            ["1", "18446744073709551614", "18446744073709551615", "18446744073709551616", "01", "abc"];
        let shown = texts.map(|text| ResourceVersion::parse(text).unwrap());
        for new in shown.iter().chain([&ResourceVersion::number(0)]) {
            versions.set(id, &mut version, Some(new));
            assert_eq!(versions.get(id, version).as_ref(), Some(new));
        }
        versions.set(id, &mut version, Some(&shown[0]));
        assert!(versions.0.is_empty() && !version.is_apart());
        versions.set(id, &mut version, Some(&shown[5]));
        versions.set(id, &mut version, None);
        assert_eq!((versions.get(id, version), versions.0.len()), (None, 0));
    }
}
