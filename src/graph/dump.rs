//! The graph as plain data, for people: the debug API and its pictures.
//!
//! Every partition dumps what it has; [`Dump::merge`] puts these together, and
//! what one partition only knows from hearsay is replaced by what the other
//! shows. [`Dump::component`] and [`Dump::to_dot`] work on the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use crate::object::{Namespace, Uid, split_api_version};

use super::Partition;
use super::node::{NodeId, NodeType, Presence};

/// Names a node in a dump: its uid and its type, because two resources may show
/// one uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DumpId {
    /// The uid.
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

/// Where a partition has a node from; the best source wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Observed,
    Concluded,
    Hearsay,
}

/// One object, with the fields of Kubernetes' own debug graph (semantics, section 9).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpNode {
    #[serde(skip)]
    source: Source,
    /// `Kind namespace/name`.
    pub label: String,
    /// The API group.
    pub group: String,
    /// The version that requests use.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: Uid,
    /// Proved absent, or of a kind that nobody serves, or invalid: not in the graph as an object.
    pub missing: bool,
    /// Has a deletion timestamp.
    pub being_deleted: bool,
    /// Is being deleted in the foreground.
    pub deleting_dependents: bool,
    /// Named by a dependent, and not observed.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
}

/// One owner reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpEdge {
    /// The dependent.
    pub child: DumpId,
    /// The owner.
    pub owner: DumpId,
    /// Whether it holds up a foreground deletion.
    pub blocking: bool,
    /// Whether the owner is the managing controller.
    pub controller: bool,
}

/// Nodes and edges, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// The nodes.
    pub nodes: BTreeMap<DumpId, DumpNode>,
    /// The edges.
    pub edges: BTreeSet<DumpEdge>,
}

impl Dump {
    /// Puts the dumps of all partitions together.
    #[must_use]
    pub fn merge(dumps: impl IntoIterator<Item = Self>) -> Self {
        let mut merged = Self::default();
        for dump in dumps {
            for (id, node) in dump.nodes {
                match merged.nodes.get(&id) {
                    Some(known) if *known <= node => {}
                    _ => {
                        merged.nodes.insert(id, node);
                    }
                }
            }
            merged.edges.extend(dump.edges);
        }
        merged
    }

    /// All that is connected with the objects of these uids, in either direction.
    #[must_use]
    pub fn component(&self, uids: &[Uid]) -> Self {
        let mut neighbours: BTreeMap<&DumpId, Vec<&DumpId>> = BTreeMap::new();
        for DumpEdge { child, owner, .. } in &self.edges {
            neighbours.entry(child).or_default().push(owner);
            neighbours.entry(owner).or_default().push(child);
        }
        let mut open: Vec<&DumpId> = self.nodes.keys().filter(|id| uids.contains(&id.uid)).collect();
        let mut reached: BTreeSet<&DumpId> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            for &next in neighbours.get(id).into_iter().flatten() {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        Self {
            nodes: self
                .nodes
                .iter()
                .filter(|(id, _)| reached.contains(id))
                .map(|(id, node)| (id.clone(), node.clone()))
                .collect(),
            edges: self.edges.iter().filter(|edge| reached.contains(&edge.child)).cloned().collect(),
        }
    }

    /// The picture in Graphviz' language, edges from child to owner.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("strict digraph full {\n");
        for (id, node) in &self.nodes {
            let text = [
                ("label", &node.label),
                ("group", &node.group),
                ("version", &node.version),
                ("kind", &node.kind),
                ("namespace", &node.namespace),
                ("name", &node.name),
            ];
            let _ = write!(dot, "  {} [", quote(&id.to_string()));
            for (field, value) in text {
                let _ = write!(dot, "{field}={} ", quote(value));
            }
            let _ = writeln!(
                dot,
                "uid={} missing=\"{}\" beingDeleted=\"{}\" deletingDependents=\"{}\" virtual=\"{}\"];",
                quote(&node.uid.to_string()),
                node.missing,
                node.being_deleted,
                node.deleting_dependents,
                node.is_virtual
            );
        }
        for DumpEdge { child, owner, .. } in &self.edges {
            let _ = writeln!(dot, "  {} -> {};", quote(&child.to_string()), quote(&owner.to_string()));
        }
        dot.push_str("}\n");
        dot
    }

    /// The same as JSON: `nodes`, each with its `id`, and `edges`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        #[derive(Serialize)]
        struct Named<'a> {
            id: &'a DumpId,
            #[serde(flatten)]
            node: &'a DumpNode,
        }
        let nodes: Vec<Named<'_>> = self.nodes.iter().map(|(id, node)| Named { id, node }).collect();
        serde_json::json!({ "nodes": nodes, "edges": self.edges })
    }
}

/// A quoted DOT string. References are written by anybody, so that names in them
/// may hold anything; only quotes, backslashes and line ends mean something in DOT.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            character if character.is_control() => quoted.push(' '),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

impl Partition {
    /// Dumps every node that has an edge, and the nodes of these uids even if
    /// they have none. To see the connected component of an object, merge the
    /// dumps of all partitions first: the way may lead through several.
    #[must_use]
    pub fn dump(&self, roots: Option<&[Uid]>) -> Dump {
        let mut dump = Dump::default();
        for (id, node) in self.store.nodes.iter() {
            let connected = node.first_owner.is_some() || node.first_dependent.is_some();
            if connected || roots.is_some_and(|roots| roots.contains(&node.uid)) {
                dump.nodes.insert(self.dump_id(id), self.dump_node(id));
            }
        }
        for (_, edge) in self.store.edges.iter() {
            dump.edges.insert(DumpEdge {
                child: self.dump_id(edge.dependent),
                owner: self.dump_id(edge.owner),
                blocking: edge.blocking,
                controller: edge.controller,
            });
        }
        dump
    }

    fn dump_id(&self, id: NodeId) -> DumpId {
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

    fn dump_node(&self, id: NodeId) -> DumpNode {
        let node = &self.store.nodes[id];
        let (group, version, kind) = match node.node_type {
            NodeType::Served { .. } => {
                let resource = self.store.resource(id);
                (resource.group_resource.group.to_string(), resource.version.to_string(), &resource.kind)
            }
            NodeType::Unresolved(id) => {
                let unresolved = self.store.reference_types.get(id);
                let (group, version) = split_api_version(&unresolved.api_version);
                (group.to_owned(), version.to_owned(), &unresolved.kind)
            }
        };
        let namespace = self.store.namespace(id).map_or("", Namespace::as_str);
        let name = node.name.to_string();
        let label = if namespace.is_empty() {
            format!("{kind} {name}")
        } else {
            format!("{kind} {namespace}/{name}")
        };
        DumpNode {
            source: match node.presence {
                Presence::Observed => Source::Observed,
                Presence::Virtual | Presence::Absent | Presence::Unresolved => Source::Concluded,
                Presence::InvalidScope | Presence::Remote | Presence::Linked => Source::Hearsay,
            },
            label,
            group,
            version,
            kind: kind.to_string(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_strings_cannot_be_broken_out_of() {
        assert_eq!(quote("a\"]; b\\\n\u{7}"), "\"a\\\"]; b\\\\\\n \"");
    }
}
