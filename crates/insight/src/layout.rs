//! A neighbourhood as the rows of a tree, and in pages.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::name::{ObjectName, Unseen};
use crate::neighbourhood::{Edge, More, Neighbourhood};

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
    let prefix = |depth: usize| match depth {
        0 => String::new(),
        _ => "   ".repeat(depth - 1) + "└─ ",
    };
    for (depth, &owner) in owners.iter().rev().enumerate() {
        rows.push(Row { prefix: prefix(depth), kind: RowKind::Owner(owner) });
    }
    rows.push(Row { prefix: prefix(owners.len()), kind: RowKind::Root(0) });
    descend(shown, 0, &"   ".repeat(owners.len()), &mut HashSet::from([0]), &mut rows);
    rows
}

/// Adds the rows below an object.
fn descend(shown: &Neighbourhood, owner: usize, base: &str, met: &mut HashSet<usize>, rows: &mut Vec<Row>) {
    let nodes: Vec<usize> = shown.below(owner).map(|edge| edge.dependent).collect();
    let more: Vec<usize> = (0..shown.more.len()).filter(|&place| shown.more[place].owner == owner).collect();
    let mut left = nodes.len() + more.len();
    let mut lines = || {
        left -= 1;
        if left == 0 { ("└─ ", "   ") } else { ("├─ ", "│  ") }
    };
    for place in nodes {
        let (own, below) = lines();
        let is_above = !met.insert(place);
        rows.push(Row { prefix: format!("{base}{own}"), kind: RowKind::Dependent { place, is_above } });
        if !is_above {
            descend(shown, place, &format!("{base}{below}"), met, rows);
        }
    }
    for place in more {
        rows.push(Row { prefix: format!("{base}{}", lines().0), kind: RowKind::More(place) });
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

    /// The references of an object's dependents to it.
    pub(super) fn below(&self, owner: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.owner == owner && edge.class.is_none())
    }
}

/// A part of a neighbourhood, as a collector answers with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourhoodPage {
    #[serde(flatten)]
    pub shown: Neighbourhood,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// The parameter `after` of the next page, if there is one.
    pub next: Option<String>,
}

/// The objects of a neighbourhood from the place `after` on, at most `limit` of them, and where the
/// next page begins.
///
/// The root is on every page, and so is the other object of each reference of a new object, if it
/// was on an earlier page. Each reference is on the page of its later object. `whole` must have
/// every object up to the end of the page, and one more if there is a next page.
pub fn page(whole: &Neighbourhood, after: usize, limit: usize) -> (Neighbourhood, Option<usize>) {
    let mut of_node: HashMap<usize, Vec<&Edge>> = HashMap::new();
    for edge in &whole.edges {
        of_node.entry(edge.dependent.max(edge.owner)).or_default().push(edge);
    }
    // The root is new on the first page, and known on the others.
    let mut shown: BTreeSet<usize> = BTreeSet::from([0]);
    let mut edges = Vec::new();
    let mut end = after;
    let mut dropped = false;
    while end < whole.nodes.len() {
        let own = of_node.get(&end).map_or(&[][..], Vec::as_slice);
        let mut with = shown.clone();
        with.insert(end);
        with.extend(own.iter().map(|edge| edge.dependent.min(edge.owner)));
        if with.len() <= limit {
            shown = with;
            edges.extend(own.iter().copied());
        } else if end == after || end == 0 {
            // A page has a new object at least, with as many of its references as there is room for.
            shown.insert(end);
            for edge in own {
                let other = edge.dependent.min(edge.owner);
                if shown.contains(&other) || shown.len() < limit {
                    shown.insert(other);
                    edges.push(edge);
                } else {
                    dropped = true;
                }
            }
        } else {
            break;
        }
        end += 1;
    }
    let next = (end < whole.nodes.len()).then_some(end);
    let places: HashMap<usize, usize> = shown.iter().enumerate().map(|(new, &old)| (old, new)).collect();
    // What is not shown on this page nor on an earlier one. References to owners have a class, those to
    // dependents have none.
    let mut more: Vec<More> = whole.more.iter().filter_map(|more| more.moved(&places)).collect();
    for edge in whole.edges.iter().filter(|edge| edge.class.is_none() && edge.dependent >= end) {
        if let Some(&owner) = places.get(&edge.owner) {
            More::count_in(&mut more, owner, &whole.nodes[edge.dependent]);
        }
    }
    let page = Neighbourhood {
        nodes: shown.iter().map(|&place| whole.nodes[place].clone()).collect(),
        edges: edges.into_iter().filter_map(|edge| edge.moved(&places)).collect(),
        more,
        truncated: whole.truncated || dropped,
    };
    (page, next)
}

/// Adds a page to those before it. What is not shown is that of the last page for each owner on it.
pub fn join(whole: &mut Neighbourhood, page: Neighbourhood) {
    let known = whole.nodes.iter().enumerate().map(|(place, node)| (node.name.clone(), place));
    let mut known: HashMap<ObjectName, usize> = known.collect();
    let mut places = HashMap::new();
    for (at, node) in page.nodes.into_iter().enumerate() {
        let place = *known.entry(node.name.clone()).or_insert(whole.nodes.len());
        if place == whole.nodes.len() {
            whole.nodes.push(node);
        }
        places.insert(at, place);
    }
    whole.edges.extend(page.edges.iter().filter_map(|edge| edge.moved(&places)));
    whole.more.retain(|more| !places.values().any(|place| *place == more.owner));
    whole.more.extend(page.more.iter().filter_map(|more| more.moved(&places)));
    whole.truncated = page.truncated;
}
