//! The graph as plain data, for the debug pages.
//!
//! A large graph is never assembled in memory. Callers read pages of nodes and edges from each
//! partition. Several partitions may know an object; the one with the best source shows it, so
//! that it appears once.

mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Serialize, Serializer};

use super::node::{Edge, NodeId, Presence, Target};
use super::{Cursor, Partition, PartitionId};
use crate::object::{GroupResource, Namespace, Uid, split_api_version};
use crate::text::word;

pub use text::{DumpFormat, DumpWriter};

/// Identifies a node in a dump by uid and type, because two resources may show one uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DumpId {
    pub uid: Uid,
    /// `resource.group`, or `apiVersion/kind` if that does not resolve.
    pub resource: Box<str>,
}

impl fmt::Display for DumpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let resource = match node.target {
            Target::Served(_) => self.store.resource(id).group_resource.to_string(),
            Target::Unresolved(id) => {
                let unresolved = &self.store.reference_types.get(id).key;
                format!("{}/{}", unresolved.api_version, unresolved.kind)
            }
        };
        DumpId { uid: node.uid.clone(), resource: resource.into() }
    }

    pub(super) fn dump_node(&self, id: NodeId) -> DumpNode {
        let node = &self.store.nodes[id];
        let (group, version, kind) = match node.target {
            Target::Served(_) => {
                let resource = self.store.resource(id);
                (resource.group_resource.group.to_string(), resource.version.to_string(), &*resource.kind)
            }
            Target::Unresolved(id) => {
                let unresolved = &self.store.reference_types.get(id).key;
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

/// Some of a partition's nodes or edges, each once.
#[derive(Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page starts; `None` after the last one.
    pub next: Option<Cursor>,
}

/// Some nodes and what they are connected with.
#[derive(Debug, Default)]
pub struct Neighborhood {
    /// The nodes that have edges in this partition.
    pub nodes: Vec<(DumpId, DumpNode)>,
    /// Their edges in either direction. An edge between two of the nodes occurs twice.
    pub edges: Vec<DumpEdge>,
}

impl Partition {
    /// A page of the nodes that have an edge. Visits at most this many slots, so that the
    /// partition soon returns to its work. An empty page may have successors.
    ///
    /// The pages are not a consistent snapshot: a node that appears or disappears between the
    /// first page and the last may be returned or not.
    pub fn page_of_nodes(&self, after: Option<Cursor>, places: usize) -> Page<(DumpId, DumpNode)> {
        let start = after.unwrap_or_default();
        let nodes = self.store.nodes.iter_from(start.0, places).filter(|&(id, _)| self.is_connected(id));
        let items = nodes.map(|(id, _)| (self.dump_id(id), self.dump_node(id))).collect();
        Page { items, next: self.next_places(start, places) }
    }

    /// A page of edges. Visits at most this many slots and ends after the object that brings it
    /// to this many edges. Leaves out linked dependents, which their own partition shows.
    pub fn page_of_edges(&self, after: Option<Cursor>, places: usize) -> Page<DumpEdge> {
        let start = after.unwrap_or_default();
        let mut items = Vec::new();
        let nodes = self.store.nodes.iter_from(start.0, places);
        for (id, _) in nodes.filter(|(_, node)| node.presence != Presence::Linked) {
            // Two references of one object may look the same in a dump.
            items.extend(self.edges_of(id).collect::<BTreeSet<_>>());
            if items.len() >= places {
                return Page { items, next: Some(Cursor(id.number())) };
            }
        }
        Page { items, next: self.next_places(start, places) }
    }

    pub(super) fn next_places(&self, start: Cursor, places: usize) -> Option<Cursor> {
        let end = u32::try_from(places).map_or(u32::MAX, |places| start.0.saturating_add(places));
        self.store.nodes.reaches_beyond(end).then_some(Cursor(end))
    }

    fn edges_of(&self, id: NodeId) -> impl Iterator<Item = DumpEdge> {
        self.store.owners(id).map(|edge| self.dump_edge(&self.store.edges[edge]))
    }

    /// For each node that another partition shows, whether this partition has a better source.
    /// Between equal sources the first partition wins.
    pub fn shows_better(&self, asker: PartitionId, shown: &[(DumpId, DumpNode)]) -> Vec<bool> {
        let better = |(id, node): &(DumpId, DumpNode)| {
            self.named(id)
                .filter(|&own| self.is_connected(own))
                .any(|own| (&self.dump_node(own), self.id) < (node, asker))
        };
        shown.iter().map(better).collect()
    }

    /// The nodes that have one of these uids.
    pub fn nodes_of(&self, uids: &[Uid]) -> Vec<(DumpId, DumpNode)> {
        let found = uids.iter().flat_map(|uid| self.store.with_uid(uid));
        found.map(|id| (self.dump_id(id), self.dump_node(id))).collect()
    }

    /// These nodes, if they have edges here, and their edges.
    pub fn neighborhood(&self, ids: &[DumpId]) -> Neighborhood {
        let mut around = Neighborhood::default();
        for id in ids.iter().flat_map(|id| self.named(id)).filter(|&id| self.is_connected(id)) {
            around.nodes.push((self.dump_id(id), self.dump_node(id)));
            around.edges.extend(self.edges_of(id));
            let dependents = self.store.dependents(id);
            around.edges.extend(dependents.map(|edge| self.dump_edge(&self.store.edges[edge])));
        }
        around
    }

    /// The nodes with this id, without a search of all nodes with the uid.
    fn named<'a>(&'a self, DumpId { uid, resource }: &'a DumpId) -> impl Iterator<Item = NodeId> + 'a {
        let types = &self.store.types;
        let served = types.find(&GroupResource::parse(resource)).map(Target::Served);
        let served = served.and_then(|target| self.store.find(uid, target));
        // `apiVersion/kind` has one or two slashes.
        let slashes = resource.match_indices('/').take(2);
        let unresolved = slashes.filter_map(|(slash, _)| {
            let (api_version, kind) = (&resource[..slash], &resource[slash + 1..]);
            self.store.find_unresolved(uid, api_version, kind)
        });
        served.into_iter().chain(unresolved)
    }
}
