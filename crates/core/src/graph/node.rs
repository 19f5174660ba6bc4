//! Nodes and edges. They are small because a large cluster has a million of each.

use crate::object::{DeletionState, Finalizers, Uid};

use super::arena::Id;
use super::intern::{NamespaceId, ReferenceTypeId};
use super::names::Name;
use super::types::TypeId;

pub(super) type NodeId = Id<Node>;
pub(super) type EdgeId = Id<Edge>;

/// The version of a node, if it is a number that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version(pub(super) u64);

impl Version {
    pub(super) const NONE: Self = Self(0);
    /// Not a number: the version is in [`Versions`](super::resource_versions::Versions).
    pub(super) const APART: Self = Self(u64::MAX);

    pub(super) fn is_apart(self) -> bool {
        self == Self::APART
    }
}

/// Why a node is in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// A monitor shows it.
    Observed,
    /// Some dependent names it and no monitor shows it: it has to be verified.
    Virtual,
    /// Proved absent, and still named by a dependent. The node remembers the absence for
    /// exactly as long as it matters.
    Absent,
    /// In a namespaced partition: a stub of a cluster-scoped owner, whose node lives in
    /// partition 0.
    Remote,
    /// An owner whose `apiVersion` and kind do not resolve.
    Unresolved,
    /// In partition 0: an owner of a namespaced kind, named by a cluster-scoped dependent.
    InvalidScope,
    /// In partition 0: a dependent that lives in another partition and is known by its links.
    Linked,
}

/// The role of a node among the nodes with its uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// No other resource shows this object.
    Single,
    /// Several resources show this object; work is done on this node.
    Primary,
    /// Another view of an object whose primary is elsewhere.
    Alias,
}

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeType {
    /// A type that is or was served, and the node's position in the type's list.
    Served { id: TypeId, position: u32 },
    /// The `apiVersion` and kind of a reference, which did not resolve.
    Unresolved(ReferenceTypeId),
}

/// Together with a uid, the key of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Served(TypeId),
    Unresolved(ReferenceTypeId),
}

/// An object, or a stub of one that a reference names.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) uid: Uid,
    pub(super) name: Name,
    pub(super) version: Version,
    pub(super) namespace: Option<NamespaceId>,
    pub(super) node_type: NodeType,
    /// The first of its own references, in their written order.
    pub(super) first_owner: Option<EdgeId>,
    /// The first edge in the list of its dependents.
    pub(super) first_dependent: Option<EdgeId>,
    pub(super) generation: u32,
    pub(super) presence: Presence,
    pub(super) deletion: DeletionState,
    pub(super) finalizers: Finalizers,
    pub(super) role: Role,
    /// It has finalizers of others. This is no part of the state that is compared, because no
    /// decision depends on it.
    pub(super) held_by_others: bool,
    /// Seen since the current list began.
    pub(super) listed: bool,
    /// For a linked node: another reference of the dependent has the same uid as the linked one.
    pub(super) shares_uid: bool,
}

impl Node {
    pub(super) const fn target(&self) -> Target {
        match self.node_type {
            NodeType::Served { id, .. } => Target::Served(id),
            NodeType::Unresolved(id) => Target::Unresolved(id),
        }
    }

    /// Whether its kind does not resolve to a type.
    pub(super) const fn is_unresolved(&self) -> bool {
        matches!(self.node_type, NodeType::Unresolved(_))
    }

    pub(super) fn is_observed(&self) -> bool {
        self.presence == Presence::Observed
    }

    pub(super) fn is_deleting_dependents(&self) -> bool {
        self.deletion == DeletionState::DeletingDependents
    }
}

/// One owner reference. Its uid is that of the owner node. So is its name, unless the store
/// keeps another one in `own_names`.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) dependent: NodeId,
    pub(super) owner: NodeId,
    pub(super) reference_type: ReferenceTypeId,
    /// The dependent's next reference.
    pub(super) next_owner: Option<EdgeId>,
    /// The owner's next dependent.
    pub(super) next_dependent: Option<EdgeId>,
    /// The owner's previous dependent.
    pub(super) previous_dependent: Option<EdgeId>,
    pub(super) blocking: bool,
    pub(super) controller: bool,
    /// The reference has another name than the owner node.
    pub(super) own_name: bool,
}

#[cfg(test)]
mod tests {
    use super::super::arena::Arena;
    use super::*;

    #[test]
    fn a_million_objects_fit() {
        assert_eq!((size_of::<Node>(), Arena::<Node>::SLOT), (64, 64));
        assert_eq!((size_of::<Edge>(), Arena::<Edge>::SLOT), (28, 28));
        assert_eq!(size_of::<Option<NodeId>>(), 4);
    }
}
