//! The graph as plain data, for the debug pages.
//!
//! A large graph is never assembled in memory. Callers read pages of nodes and edges from each
//! partition. Several partitions may know an object; the one with the best source shows it, so
//! that it appears once.

mod pages;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use crate::object::{Namespace, Uid, split_api_version};
use crate::text::word;

use super::Partition;
use super::node::{Edge, NodeId, NodeType, Presence};

pub use pages::{EdgePage, Neighborhood, NodePage};
pub use text::{DumpFormat, DumpWriter};

/// Identifies a node in a dump by uid and type, because two resources may show one uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DumpId {
    pub uid: Uid,
    /// `resource.group`, or `apiVersion/kind` if that does not resolve.
    pub resource: Box<str>,
}

impl std::fmt::Display for DumpId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.uid, self.resource)
    }
}

impl Serialize for DumpId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How a partition knows a node, the best source first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Observed,
    Referenced,
    Remote,
}

/// One object, with the fields of Kubernetes' own debug graph (rule 9.4). Texts from references
/// are truncated, except the uid, by which a client asks for a part of the graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpNode {
    #[serde(skip)]
    source: Source,
    /// `Kind namespace/name`.
    pub label: String,
    pub group: String,
    /// The version that requests use.
    pub version: String,
    pub kind: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub uid: Uid,
    /// Not an object in the graph: proved absent, of a kind that is not served, or invalid.
    pub missing: bool,
    /// Has a deletion timestamp.
    pub being_deleted: bool,
    /// Is being deleted in the foreground.
    pub deleting_dependents: bool,
    /// Named by a dependent and not observed.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
}

impl DumpNode {
    /// Whether a monitor shows it, so that no other partition has a better source.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.source == Source::Observed
    }
}

/// One owner reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpEdge {
    pub child: DumpId,
    pub owner: DumpId,
    /// Whether it blocks a foreground deletion of the owner.
    pub blocking: bool,
    /// Whether the owner is the managing controller.
    pub controller: bool,
}

/// A part of the graph that fits into memory, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    pub nodes: BTreeMap<DumpId, DumpNode>,
    pub edges: BTreeSet<DumpEdge>,
}

impl Dump {
    #[must_use]
    pub fn written(&self, language: DumpFormat) -> String {
        let mut text = String::new();
        let mut writer = DumpWriter::new(language, &mut text);
        writer.nodes(&self.nodes, &mut text);
        writer.edges(&self.edges, &mut text);
        writer.end(&mut text);
        text
    }
}

impl Partition {
    /// Whether a node has an edge here. Dumps leave out nodes without edges, which most are.
    pub(super) fn is_connected(&self, id: NodeId) -> bool {
        let node = &self.store.nodes[id];
        node.first_owner.is_some() || node.first_dependent.is_some()
    }

    pub(super) fn dump_edge(&self, edge: &Edge) -> DumpEdge {
        DumpEdge {
            child: self.dump_id(edge.dependent),
            owner: self.dump_id(edge.owner),
            blocking: edge.blocking,
            controller: edge.controller,
        }
    }

    pub(super) fn dump_id(&self, id: NodeId) -> DumpId {
        let node = &self.store.nodes[id];
        let resource = match node.node_type {
            NodeType::Served { .. } => self.store.resource(id).group_resource.to_string(),
            NodeType::Unresolved(id) => {
                let unresolved = self.store.reference_types.get(id);
                format!("{}/{}", unresolved.api_version, unresolved.kind)
            }
        };
        DumpId { uid: node.uid.clone(), resource: resource.into() }
    }

    pub(super) fn dump_node(&self, id: NodeId) -> DumpNode {
        let node = &self.store.nodes[id];
        let (group, version, kind) = match node.node_type {
            NodeType::Served { .. } => {
                let resource = self.store.resource(id);
                (resource.group_resource.group.to_string(), resource.version.to_string(), &*resource.kind)
            }
            NodeType::Unresolved(id) => {
                let unresolved = self.store.reference_types.get(id);
                let (group, version) = split_api_version(&unresolved.api_version);
                (group.to_owned(), version.to_owned(), &*unresolved.kind)
            }
        };
        let namespace = self.store.namespace(id).map_or("", Namespace::as_str);
        let (kind, name) = (word(kind).to_string(), word(self.store.name(id)).to_string());
        let label = if namespace.is_empty() {
            format!("{kind} {name}")
        } else {
            format!("{kind} {namespace}/{name}")
        };
        DumpNode {
            source: match node.presence {
                Presence::Observed => Source::Observed,
                Presence::Virtual | Presence::Absent | Presence::Unresolved => Source::Referenced,
                Presence::InvalidScope | Presence::Remote | Presence::Linked => Source::Remote,
            },
            label,
            group: word(&group).to_string(),
            version: word(&version).to_string(),
            kind,
            namespace: namespace.to_owned(),
            name,
            uid: node.uid.clone(),
            missing: !matches!(node.presence, Presence::Observed | Presence::Virtual),
            being_deleted: node.deletion.is_being_deleted(),
            deleting_dependents: node.is_deleting_dependents(),
            is_virtual: node.presence == Presence::Virtual,
        }
    }
}
