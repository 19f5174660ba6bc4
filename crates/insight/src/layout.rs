//! A neighbourhood as the rows of a tree: owners above, dependents below.

use std::collections::HashSet;

use super::neighbourhood::{Edge, More, Neighbourhood};

/// A row of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The lines that lead to it.
    pub prefix: String,
    pub kind: RowKind,
}

/// What a row shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// An owner of the row below, by its place in the list of nodes.
    Owner(usize),
    /// The object that was asked about.
    Root(usize),
    /// A dependent of the row above.
    Dependent {
        place: usize,
        /// Its dependents are shown in an earlier row.
        is_above: bool,
    },
    /// Dependents that are not shown, by their place in the list of what is not shown.
    More(usize),
}

/// The rows of a neighbourhood. Of several owners, the controller is the one that is drawn, or
/// else the first one; [`further_owners`](Neighbourhood::further_owners) has the others.
#[must_use]
pub fn rows(shown: &Neighbourhood) -> Vec<Row> {
    if shown.nodes.is_empty() {
        return Vec::new();
    }
    let mut rows = Vec::new();
    let mut owners = Vec::new();
    let mut met: HashSet<usize> = HashSet::from([0]);
    let mut at = 0;
    while let Some(edge) = shown.drawn_owner(at) {
        if !met.insert(edge.owner) {
            break;
        }
        owners.push(edge.owner);
        at = edge.owner;
    }
    for (depth, &owner) in owners.iter().rev().enumerate() {
        rows.push(Row { prefix: branch(depth, true, ""), kind: RowKind::Owner(owner) });
    }
    let indent = "   ".repeat(owners.len().saturating_sub(1));
    rows.push(Row { prefix: branch(owners.len(), true, ""), kind: RowKind::Root(0) });
    let begin = if owners.is_empty() { String::new() } else { indent + "   " };
    descend(shown, 0, &begin, &mut HashSet::from([0]), &mut rows);
    rows
}

/// The lines of a chain at some depth.
fn branch(depth: usize, is_last: bool, base: &str) -> String {
    match depth {
        0 => base.to_owned(),
        _ => base.to_owned() + &"   ".repeat(depth - 1) + if is_last { "└─ " } else { "├─ " },
    }
}

/// Adds the rows below an object. Works on a stack of its own, because a chain can be as long as
/// there are objects.
fn descend(shown: &Neighbourhood, root: usize, base: &str, met: &mut HashSet<usize>, rows: &mut Vec<Row>) {
    enum Child {
        Node(usize),
        More(usize),
    }
    let children = |owner: usize| -> Vec<Child> {
        let nodes = shown.edges.iter().filter(|edge| edge.owner == owner && edge.class.is_none());
        let mut children: Vec<Child> = nodes.map(|edge| Child::Node(edge.dependent)).collect();
        let more = shown.more.iter().enumerate().filter(|(_, more)| more.owner == owner);
        children.extend(more.map(|(place, _)| Child::More(place)));
        children.reverse();
        children
    };
    let mut open = vec![(children(root), base.to_owned())];
    while let Some((rest, base)) = open.last_mut() {
        let Some(child) = rest.pop() else {
            open.pop();
            continue;
        };
        let is_last = rest.is_empty();
        let prefix = base.clone() + if is_last { "└─ " } else { "├─ " };
        match child {
            Child::More(place) => rows.push(Row { prefix, kind: RowKind::More(place) }),
            Child::Node(place) => {
                let below = base.clone() + if is_last { "   " } else { "│  " };
                let is_new = met.insert(place);
                let children = if is_new { children(place) } else { Vec::new() };
                rows.push(Row { prefix, kind: RowKind::Dependent { place, is_above: !is_new } });
                open.push((children, below));
            }
        }
    }
}

impl Neighbourhood {
    /// The reference to the owner under which an object is drawn.
    fn drawn_owner(&self, dependent: usize) -> Option<&Edge> {
        let owners = || self.edges.iter().filter(|edge| edge.dependent == dependent && edge.class.is_some());
        owners().find(|edge| edge.controller).or_else(|| owners().next())
    }

    /// The owners of an object under which it is not drawn.
    pub fn further_owners(&self, dependent: usize) -> impl Iterator<Item = &Edge> {
        let drawn = self.drawn_owner(dependent).map(|edge| edge.owner);
        self.edges.iter().filter(move |edge| {
            edge.dependent == dependent && edge.class.is_some() && Some(edge.owner) != drawn
        })
    }

    /// What is not shown of an object's dependents.
    pub fn not_shown(&self, owner: usize) -> impl Iterator<Item = &More> {
        self.more.iter().filter(move |more| more.owner == owner)
    }
}
