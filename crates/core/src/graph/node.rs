//! Nodes and edges, small: a large cluster has a million of each.

use crate::object::{DeletionState, Finalizers, Uid};

use super::arena::Id;
use super::intern::{NamespaceId, ReferenceTypeId};
use super::names::Name;
use super::types::TypeId;

pub(super) type NodeId = Id<Node>;
pub(super) type EdgeId = Id<Edge>;

/// The version of a node, as far as it is a number that fits.
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
    /// Some dependent names it and no monitor shows it: to be verified.
    Virtual,
    /// Proved absent, and still named by a dependent. So an absence is remembered
    /// here exactly as long as it is needed.
    Absent,
    /// A cluster-scoped owner, seen from a namespaced partition: coordinates and
    /// edges only, the node itself lives in partition 0.
    Remote,
    /// An owner whose kind does not resolve: nobody knows what it is.
    Unresolved,
    /// In partition 0: a namespaced kind that a cluster-scoped dependent names.
    InvalidScope,
    /// In partition 0: a dependent that lives elsewhere, known by its links.
    Linked,
}

/// What a node is in relation to other nodes with its uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// No other resource shows this object.
    Single,
    /// Several resources show this object; it is handled under this one.
    Primary,
    /// Another resource's view of an object that is handled there.
    Alias,
}

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeType {
    /// A type that is or was served, and the node's place in the type's list.
    Served { id: TypeId, position: u32 },
    /// None: the `apiVersion` and `kind` of the reference, which did not resolve.
    Unresolved(ReferenceTypeId),
}

/// With a uid, the key of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Served(TypeId),
    Unresolved(ReferenceTypeId),
}

/// An object, or what some reference takes for one.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) uid: Uid,
    pub(super) name: Name,
    pub(super) version: Version,
    pub(super) namespace: Option<NamespaceId>,
    pub(super) node_type: NodeType,
    /// The first of its references, in the order in which they were written.
    pub(super) first_owner: Option<EdgeId>,
    /// One of its dependents.
    pub(super) first_dependent: Option<EdgeId>,
    pub(super) generation: u32,
    pub(super) presence: Presence,
    pub(super) deletion: DeletionState,
    pub(super) finalizers: Finalizers,
    pub(super) role: Role,
    /// Shown by the list that is running, or since.
    pub(super) listed: bool,
    /// Of a linked node: another reference has the uid of the one that is linked.
    pub(super) shares_uid: bool,
}

impl Node {
    pub(super) const fn target(&self) -> Target {
        match self.node_type {
            NodeType::Served { id, .. } => Target::Served(id),
            NodeType::Unresolved(id) => Target::Unresolved(id),
        }
    }

    /// Whether its kind leads to no type; what does is another node.
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

/// One owner reference. Its uid is the owner node's; its name too, unless the
/// store keeps another one for it.
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
    /// The reference's name is not the owner node's.
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
