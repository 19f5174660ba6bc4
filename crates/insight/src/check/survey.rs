//! A first look at all objects, and the circles of objects that own each other.

use std::collections::{HashMap, HashSet};

use crate::check::object::is_same;
use crate::knowledge::LocalGraph;
use kube_gc_core::graph::{ObjectSnapshot, OwnerState, OwnerView};
use kube_gc_core::object::{DeletionState, Identity, Key, Uid};

/// The most objects with one uid that are looked at.
const HOLDERS: usize = 8;

/// What a first look at all objects has found.
#[derive(Debug, Default)]
pub struct Survey {
    pub objects: usize,
    pub references: usize,
    /// The objects that may have something wrong. All others have not.
    pub suspects: Vec<Key>,
    pub circles: Circles,
}

/// An object that may have something wrong.
#[derive(Debug)]
pub struct Suspect {
    pub object: ObjectSnapshot,
    /// For each of its references, the observed objects that have the uid.
    pub holders: Vec<Vec<Identity>>,
}

impl Survey {
    /// Looks at all objects of a graph, for what is wrong with those that are selected, or with all.
    #[must_use]
    pub fn of(graph: &mut LocalGraph, selected: Option<&HashSet<Uid>>) -> Self {
        let mut survey = Self::default();
        let mut edges = Edges::default();
        let mut selected_keys: HashSet<Key> = HashSet::new();
        graph.each_object(|graph, object| {
            let is_selected = selected.is_none_or(|uids| uids.contains(&object.identity.uid));
            if is_selected && selected.is_some() {
                selected_keys.insert(object.identity.key());
            }
            survey.see(graph, object, is_selected, &mut edges);
        });
        survey.circles = edges.circles();
        // An object that is suspect for two reasons is looked at once.
        let mut known: HashSet<Key> = survey.suspects.iter().cloned().collect();
        let members =
            survey.circles.members().filter(|key| selected.is_none() || selected_keys.contains(key));
        let members = members.filter(|key| known.insert((*key).clone()));
        survey.suspects.extend(members.cloned());
        survey
    }

    fn see(&mut self, graph: &LocalGraph, object: &ObjectSnapshot, is_selected: bool, edges: &mut Edges) {
        if is_selected {
            self.objects += 1;
            self.references += object.references.len();
        }
        if object.deletion.is_being_deleted() {
            // It goes already.
            return;
        }
        let key = object.identity.key();
        let mut uids: HashSet<&Uid> = HashSet::new();
        let mut is_suspect = false;
        for seen in &object.references {
            let exists = |state: &OwnerState| matches!(state, OwnerState::Observed { .. });
            is_suspect |= match &seen.owner {
                OwnerView::Local { state, identity } => is_same(identity, &object.identity) || !exists(state),
                OwnerView::Remote(identity) => !exists(&graph.owner_state(identity)),
                OwnerView::Unresolved | OwnerView::InvalidScope => true,
            };
            is_suspect |= !uids.insert(&seen.reference.uid);
            is_suspect |= graph.has_several(&seen.reference.uid);
            if let OwnerView::Local { identity, state: OwnerState::Observed { deletion, .. } } = &seen.owner
                && object.has_dependents
                && *deletion == DeletionState::Live
            {
                edges.add(&key, &identity.key());
            }
        }
        if is_suspect && is_selected {
            self.suspects.push(key);
        }
    }
}

impl Suspect {
    /// An object of a graph, unless it is gone.
    #[must_use]
    pub fn of(graph: &mut LocalGraph, key: &Key) -> Option<Self> {
        let object = graph.object(key)?;
        let uids = object.references.iter().map(|seen| &seen.reference.uid);
        let holders = uids.map(|uid| graph.holders(uid, HOLDERS)).collect();
        Some(Self { object, holders })
    }
}

/// References between objects that own something and are owned. Only they can be in a circle.
#[derive(Debug, Default)]
pub struct Edges {
    places: HashMap<Key, usize>,
    /// Dependent and owner.
    edges: Vec<(usize, usize)>,
}

/// The objects that are in circles.
#[derive(Debug, Default)]
pub struct Circles {
    /// The number of each object's circle.
    of: HashMap<Key, usize>,
    /// The number of objects in each circle.
    sizes: Vec<usize>,
}

impl Edges {
    pub fn add(&mut self, dependent: &Key, owner: &Key) {
        let edge = (self.place(dependent), self.place(owner));
        self.edges.push(edge);
    }

    fn place(&mut self, key: &Key) -> usize {
        let next = self.places.len();
        *self.places.entry(key.clone()).or_insert(next)
    }

    /// Finds the circles.
    #[must_use]
    pub fn circles(self) -> Circles {
        let Self { places, mut edges } = self;
        edges.sort_unstable();
        let components = components(places.len(), &edges);
        let mut members = vec![0; places.len()];
        for &component in &components {
            members[component] += 1;
        }
        let mut circles = Circles::default();
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        for (key, place) in places {
            let component = components[place];
            if members[component] > 1 {
                let number = *numbers.entry(component).or_insert(circles.sizes.len());
                if number == circles.sizes.len() {
                    circles.sizes.push(members[component]);
                }
                circles.of.insert(key, number);
            }
        }
        circles
    }
}

impl Circles {
    /// The number of objects in the circle that has both of these.
    #[must_use]
    pub fn with_both(&self, one: &Key, other: &Key) -> Option<usize> {
        let (one, other) = (self.of.get(one)?, self.of.get(other)?);
        if one == other { self.sizes.get(*one).copied() } else { None }
    }

    /// All objects that are in circles.
    pub fn members(&self) -> impl Iterator<Item = &Key> {
        self.of.keys()
    }
}

/// The strongly connected component of each node (Tarjan). Works on a stack of its own, because a
/// chain can be as long as there are objects.
fn components(nodes: usize, sorted: &[(usize, usize)]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let mut firsts = vec![0; nodes + 1];
    for &(from, _) in sorted {
        firsts[from + 1] += 1;
    }
    for node in 0..nodes {
        firsts[node + 1] += firsts[node];
    }
    let mut numbers = vec![UNSEEN; nodes];
    let mut lowest = vec![0; nodes];
    let mut component = vec![UNSEEN; nodes];
    let mut open: Vec<usize> = Vec::new();
    // A node, and its next edge.
    let mut path: Vec<(usize, usize)> = Vec::new();
    let (mut next_number, mut next_component) = (0, 0);
    for start in 0..nodes {
        if numbers[start] == UNSEEN {
            path.push((start, firsts[start]));
        }
        while let Some((node, edge)) = path.pop() {
            if numbers[node] == UNSEEN {
                numbers[node] = next_number;
                lowest[node] = next_number;
                next_number += 1;
                open.push(node);
            }
            if edge < firsts[node + 1] {
                path.push((node, edge + 1));
                let to = sorted[edge].1;
                if numbers[to] == UNSEEN {
                    path.push((to, firsts[to]));
                } else if component[to] == UNSEEN {
                    lowest[node] = lowest[node].min(numbers[to]);
                }
                continue;
            }
            if let Some(&(before, _)) = path.last() {
                lowest[before] = lowest[before].min(lowest[node]);
            }
            if lowest[node] == numbers[node] {
                while let Some(member) = open.pop() {
                    component[member] = next_component;
                    if member == node {
                        break;
                    }
                }
                next_component += 1;
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Which nodes a node reaches, by going on until nothing is new.
    fn reaches(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<bool>> {
        let mut reached = vec![vec![false; nodes]; nodes];
        for _ in 0..nodes {
            for &(from, to) in edges {
                reached[from][to] = true;
                let further = reached[to].clone();
                for (here, there) in reached[from].iter_mut().zip(further) {
                    *here |= there;
                }
            }
        }
        reached
    }

    proptest! {
        #[test]
        fn nodes_are_together_if_each_reaches_the_other(
            mut edges in prop::collection::vec((0..7_usize, 0..7_usize), 0..16),
        ) {
            edges.sort_unstable();
            let (components, reached) = (components(7, &edges), reaches(7, &edges));
            for one in 0..7 {
                for other in 0..7 {
                    let together = one == other || (reached[one][other] && reached[other][one]);
                    prop_assert_eq!(components[one] == components[other], together);
                }
            }
        }
    }

    #[test]
    fn a_long_chain_and_a_long_circle_need_no_deep_stack() {
        const LONG: usize = 1_000_000;
        let mut edges: Vec<(usize, usize)> = (1..LONG).map(|node| (node - 1, node)).collect();
        let chain = components(LONG, &edges);
        assert!(chain.windows(2).all(|pair| pair[0] != pair[1]));
        edges.push((LONG - 1, 0));
        edges.sort_unstable();
        assert!(components(LONG, &edges).iter().all(|&component| component == 0));
    }
}
