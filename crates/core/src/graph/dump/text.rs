//! Writes the graph as text, incrementally.

use std::fmt::Write as _;

use serde::Serialize;

use crate::text::escape::{escape_json, is_printable};

use super::{DumpEdge, DumpId, DumpNode};

/// The format of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpFormat {
    /// Graphviz, with edges from child to owner.
    Dot,
    /// A JSON object with `nodes`, each with its `id`, and `edges`.
    Json,
}

/// Writes a graph: first all nodes, then all edges, then the end. It remembers only its
/// position.
#[derive(Clone, Copy, Debug)]
pub struct DumpWriter {
    language: DumpFormat,
    in_edges: bool,
    /// Whether the next node or edge is the first.
    is_first: bool,
}

impl DumpWriter {
    /// Begins a text.
    pub fn new(language: DumpFormat, text: &mut String) -> Self {
        text.push_str(match language {
            DumpFormat::Dot => "strict digraph full {\n",
            DumpFormat::Json => "{\"nodes\":[",
        });
        Self { language, in_edges: false, is_first: true }
    }

    /// Writes nodes.
    pub fn nodes<'a>(
        &mut self,
        nodes: impl IntoIterator<Item = (&'a DumpId, &'a DumpNode)>,
        text: &mut String,
    ) {
        debug_assert!(!self.in_edges, "nodes come first");
        for (id, node) in nodes {
            match self.language {
                DumpFormat::Dot => dot_node(id, node, text),
                DumpFormat::Json => {
                    self.separate(text);
                    json(&Named { id, node }, text);
                }
            }
        }
    }

    /// Writes edges. No node may follow.
    pub fn edges<'a>(&mut self, edges: impl IntoIterator<Item = &'a DumpEdge>, text: &mut String) {
        self.turn_to_edges(text);
        for edge in edges {
            match self.language {
                DumpFormat::Dot => {
                    let DumpEdge { child, owner, .. } = edge;
                    let _ =
                        writeln!(text, "  {} -> {};", quote(&child.to_string()), quote(&owner.to_string()));
                }
                DumpFormat::Json => {
                    self.separate(text);
                    json(edge, text);
                }
            }
        }
    }

    /// Ends the text.
    pub fn end(mut self, text: &mut String) {
        self.turn_to_edges(text);
        text.push_str(match self.language {
            DumpFormat::Dot => "}\n",
            DumpFormat::Json => "]}\n",
        });
    }

    fn turn_to_edges(&mut self, text: &mut String) {
        if !std::mem::replace(&mut self.in_edges, true) {
            self.is_first = true;
            if self.language == DumpFormat::Json {
                text.push_str("],\"edges\":[");
            }
        }
    }

    fn separate(&mut self, text: &mut String) {
        text.push_str(if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" });
    }
}

#[derive(Serialize)]
struct Named<'a> {
    id: &'a DumpId,
    #[serde(flatten)]
    node: &'a DumpNode,
}

fn json(value: &impl Serialize, text: &mut String) {
    // Plain data with strings as keys always serializes.
    if let Ok(written) = serde_json::to_string(value) {
        let _ = escape_json(&written, text);
    }
}

fn dot_node(id: &DumpId, node: &DumpNode, text: &mut String) {
    let fields = [
        ("label", &node.label),
        ("group", &node.group),
        ("version", &node.version),
        ("kind", &node.kind),
        ("namespace", &node.namespace),
        ("name", &node.name),
    ];
    let _ = write!(text, "  {} [", quote(&id.to_string()));
    for (field, value) in fields {
        let _ = write!(text, "{field}={} ", quote(value));
    }
    let _ = writeln!(
        text,
        "uid={} missing=\"{}\" beingDeleted=\"{}\" deletingDependents=\"{}\" virtual=\"{}\"];",
        quote(&node.uid.to_string()),
        node.missing,
        node.being_deleted,
        node.deleting_dependents,
        node.is_virtual
    );
}

/// A quoted DOT string. Users write references, so their names may contain anything. Quotes and
/// backslashes are special in DOT, and other characters may be special for a terminal.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            character if is_printable(character) => quoted.push(character),
            character => {
                let _ = write!(quoted, "\\\\u{{{:x}}}", u32::from(character));
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Dump;

    #[test]
    fn dot_strings_cannot_be_broken_out_of() {
        assert_eq!(quote("a\"]; b\\\n\u{7}\u{202e}"), r#""a\"]; b\\\n\\u{7}\\u{202e}""#);
    }

    #[test]
    fn an_empty_graph_is_a_graph() {
        assert_eq!(Dump::default().written(DumpFormat::Dot), "strict digraph full {\n}\n");
        let json: serde_json::Value =
            serde_json::from_str(&Dump::default().written(DumpFormat::Json)).unwrap();
        assert_eq!(json, serde_json::json!({ "nodes": [], "edges": [] }));
    }
}
