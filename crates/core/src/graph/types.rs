//! The resource types that have nodes or a monitor.

use std::sync::Arc;

use crate::object::{GroupResource, Keyed, ResourceType};

use super::arena::{Arena, Id};
use super::keyed::KeyedMap;
use super::node::NodeId;
use super::{DeletesProve, Epoch};

pub(super) type TypeId = Id<TypeEntry>;

/// What a partition knows about the monitor of a type.
#[derive(Debug)]
pub(super) struct MonitorState {
    pub(super) epoch: Epoch,
    pub(super) deletes_prove: DeletesProve,
    /// A list was completed in this epoch: the nodes of the type are all its objects.
    pub(super) synced: bool,
    pub(super) listing: Listing,
    /// Another server showed the existing nodes. Until the first list is complete, their
    /// versions cannot be compared with this server's.
    pub(super) is_foreign: bool,
}

/// Whether a list is in progress, and how recent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// No list: events are from the watch.
    None,
    /// A list that may be older than what was seen.
    OfUnknownVersion,
    /// A list that is at least as recent as everything that was seen of the type.
    UpToDate,
}

/// A resource type that has nodes, a monitor, or both.
#[derive(Debug)]
pub(super) struct TypeEntry {
    pub(super) resource: Arc<ResourceType>,
    pub(super) monitor: Option<MonitorState>,
    /// The nodes of the type. Each knows its position in this list.
    pub(super) nodes: Vec<NodeId>,
    /// The number of observed nodes.
    pub(super) observed: usize,
    /// Which kind of server gave the nodes their versions, by the latest monitor.
    pub(super) versions_of: Option<DeletesProve>,
    /// A list of the type was completed before.
    pub(super) was_listed: bool,
    /// Discovery no longer shows the type, and it is not proved to be gone.
    pub(super) unserved: bool,
}

impl TypeEntry {
    pub(super) fn is_synced(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.synced)
    }

    /// Whether a list is in progress.
    pub(super) fn is_listing(&self) -> bool {
        self.listing() != Listing::None
    }

    pub(super) fn listing(&self) -> Listing {
        self.monitor.as_ref().map_or(Listing::None, |monitor| monitor.listing)
    }
}

/// All types in use.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) entries: Arena<TypeEntry>,
    index: KeyedMap<GroupResource, TypeId>,
}

impl Types {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { entries: Arena::default(), index: KeyedMap::with_hasher(hasher) }
    }

    pub(super) fn find(&self, group_resource: &GroupResource) -> Option<TypeId> {
        self.index.get(group_resource).copied()
    }

    pub(super) fn find_or_insert(&mut self, resource: &Arc<ResourceType>) -> TypeId {
        if let Some(id) = self.find(&resource.group_resource) {
            return id;
        }
        let entry = TypeEntry {
            resource: Arc::clone(resource),
            monitor: None,
            nodes: Vec::new(),
            observed: 0,
            versions_of: None,
            was_listed: false,
            unserved: false,
        };
        let id = self.entries.insert(entry);
        self.index.insert(resource.group_resource.clone(), id);
        id
    }

    /// Frees a type that has neither nodes nor a monitor, so that CRDs which come and go leave
    /// nothing behind.
    pub(super) fn release(&mut self, id: TypeId) {
        let entry = &self.entries[id];
        if entry.nodes.is_empty() && entry.monitor.is_none() {
            self.index.remove(&entry.resource.group_resource);
            self.entries.remove(id);
        }
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn check(&self) {
        self.entries.check();
        assert_eq!(self.entries.len(), self.index.len());
        for (_, entry) in self.entries.iter() {
            assert!(entry.monitor.is_some() || !entry.nodes.is_empty(), "an unused type was kept");
        }
    }
}
