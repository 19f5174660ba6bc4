//! A first look at all objects, and the circles of objects that own each other.

use std::collections::{HashMap, HashSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{Graph, NodeIndex};

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
struct Edges {
    places: HashMap<Key, NodeIndex>,
    graph: Graph<Key, ()>,
}

/// The objects that are in circles: of each, the number of its circle, and how many objects are in it.
#[derive(Debug, Default)]
pub struct Circles(HashMap<Key, (usize, usize)>);

impl Edges {
    fn add(&mut self, dependent: &Key, owner: &Key) {
        let edge = (self.place(dependent), self.place(owner));
        self.graph.add_edge(edge.0, edge.1, ());
    }

    fn place(&mut self, key: &Key) -> NodeIndex {
        *self.places.entry(key.clone()).or_insert_with(|| self.graph.add_node(key.clone()))
    }

    /// Finds the circles. Not by recursion, because a chain can be as long as there are objects.
    fn circles(&self) -> Circles {
        let circles = kosaraju_scc(&self.graph).into_iter().filter(|members| members.len() > 1).enumerate();
        let of_members = circles.flat_map(|(number, members)| {
            let of_circle = (number, members.len());
            members.into_iter().map(move |place| (self.graph[place].clone(), of_circle))
        });
        Circles(of_members.collect())
    }
}

impl Circles {
    /// The number of objects in the circle that has both of these.
    #[must_use]
    pub fn with_both(&self, one: &Key, other: &Key) -> Option<usize> {
        let (one, other) = (self.0.get(one)?, self.0.get(other)?);
        (one == other).then_some(one.1)
    }

    /// All objects that are in circles.
    pub fn members(&self) -> impl Iterator<Item = &Key> {
        self.0.keys()
    }
}
