//! Nodes are found by uid, or by uid and type.

use crate::object::{Key, Uid, UidHasher};

use crate::graph::intern::ReferenceType;
use crate::graph::node::{Node, NodeId, Target};

use super::{Few, Store};

/// The hash of a node in the index. An observed node is hashed by its uid alone, so that one
/// search finds all objects with a uid; API servers make uids, so these are few. A stub is hashed
/// by uid and type: references can name one uid with any number of kinds, and a search for one
/// must not pass over all of them.
pub(super) fn index_hash(hasher: &UidHasher, node: &Node) -> u64 {
    if node.is_observed() { hasher.hash(&node.uid) } else { stub_hash(hasher, &node.uid, node.target()) }
}

fn stub_hash(hasher: &UidHasher, uid: &Uid, target: Target) -> u64 {
    let role = match target {
        Target::Served(id) => 2 * u64::from(id.number()),
        Target::Unresolved(id) => 2 * u64::from(id.number()) + 1,
    };
    hasher.hash_as(uid, role)
}

impl Store {
    pub(in crate::graph) fn find(&self, uid: &Uid, target: Target) -> Option<NodeId> {
        let is = |&id: &NodeId| self.nodes[id].uid == *uid && self.nodes[id].target() == target;
        self.index.find(self.uid_hasher.hash(uid), is).or_else(|| self.find_stub(uid, target))
    }

    /// The stub with this uid and type.
    fn find_stub(&self, uid: &Uid, target: Target) -> Option<NodeId> {
        let is = |&id: &NodeId| self.nodes[id].uid == *uid && self.nodes[id].target() == target;
        self.index.find(stub_hash(&self.uid_hasher, uid, target), is)
    }

    /// The node of a key.
    pub(in crate::graph) fn find_key(&self, key: &Key) -> Option<NodeId> {
        let target = self.types.find(&key.resource.group_resource)?;
        self.find(&key.uid, Target::Served(target))
    }

    /// Most likely the object with a uid. Does not read the node.
    pub(in crate::graph) fn first_with(&self, uid: &Uid) -> Option<NodeId> {
        self.index.with_hash(self.uid_hasher.hash(uid)).next()
    }

    /// All nodes with a uid, stubs included. The cost grows with the number of types and kinds:
    /// for debug pages only.
    pub(in crate::graph) fn with_uid(&self, uid: &Uid) -> impl Iterator<Item = NodeId> {
        let types = self.types.entries.iter().map(|(id, _)| Target::Served(id));
        let unresolved = self.reference_types.iter().map(|(id, _)| Target::Unresolved(id));
        let stubs = types.chain(unresolved).filter_map(|target| self.find_stub(uid, target));
        self.observed_with(uid).into_iter().chain(stubs)
    }

    /// The observed nodes with a uid, ordered by group and resource.
    pub(in crate::graph) fn observed_with(&self, uid: &Uid) -> Few {
        let is = |id: &NodeId| self.nodes[*id].uid == *uid && self.nodes[*id].is_observed();
        let mut found: Few = self.index.with_hash(self.uid_hasher.hash(uid)).filter(is).collect();
        found.sort_by(|&a, &b| self.resource(a).group_resource.cmp(&self.resource(b).group_resource));
        found
    }

    /// The stub with this uid, `apiVersion` and kind, which do not resolve.
    pub(in crate::graph) fn find_unresolved(
        &self,
        uid: &Uid,
        api_version: &str,
        kind: &str,
    ) -> Option<NodeId> {
        let hash = ReferenceType::hash_parts(self.reference_types.hasher(), api_version, kind);
        let is = |other: &ReferenceType| *other.api_version == *api_version && *other.kind == *kind;
        self.find_stub(uid, Target::Unresolved(self.reference_types.find(hash, is)?))
    }

    /// The unresolved stubs with this uid whose `apiVersion` satisfies a condition. The cost
    /// grows with the number of unresolved kinds.
    pub(in crate::graph) fn unresolved_with(
        &self,
        uid: &Uid,
        api_version: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = NodeId> {
        let kinds = self.reference_types.iter().filter(move |(_, kind)| api_version(&kind.api_version));
        kinds.filter_map(|(id, _)| self.find_stub(uid, Target::Unresolved(id)))
    }

    /// Changes a node in a way that may change its [`index_hash`].
    pub(super) fn reindex(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let Self { nodes, index, uid_hasher, .. } = self;
        let before = index_hash(uid_hasher, &nodes[id]);
        change(&mut nodes[id]);
        let now = index_hash(uid_hasher, &nodes[id]);
        if now != before {
            let hash_of = |&id: &NodeId| index_hash(uid_hasher, &nodes[id]);
            index.remove(before, id, hash_of);
            index.insert(now, id, hash_of);
        }
    }
}
